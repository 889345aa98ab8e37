"""Illnesses planted into the metrics of a healthy run, each after what a run with it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from podium.analysis.health import Course, Machine

Lines = list[dict[str, Any]]
GB = 10**9


def _each(course: Course, change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> Course:
    """Change every iteration of training; `change` gets its number from 0 on."""
    lines, number = [], 0
    for line in course.lines:
        if line.get("rollouts"):
            lines.append({**line, **change(number, dict(line))})
            number += 1
        else:
            lines.append(dict(line))
    return replace(course, lines=lines)


def _always(**metrics: Any) -> Callable[[Course], Course]:
    named = {name.replace("__", "."): value for name, value in metrics.items()}
    return lambda course: _each(course, lambda _, line: named)


def _held_out(course: Course, rates: list[float], half: float = 0.03) -> Course:
    """The evaluations of a run, as these pass rates."""
    rate, lines = iter(rates), []
    for line in course.lines:
        if "eval.pass@1" in line:
            x = next(rate, rates[-1])
            line = {**line, "eval.pass@1": x, "eval.pass@1.low": x - half, "eval.pass@1.high": x + half}
        lines.append(dict(line))
    return replace(course, lines=lines)


def _without_terms(line: dict[str, Any]) -> dict[str, int]:
    return {name: 0 if name.startswith("objective.Policy") else count for name, count in line["acted"].items()}


def _solved(course: Course) -> Course:
    solved = _each(
        course, lambda _, x: {"pass@1": 0.99, "reward": 0.99, "flat_groups": 0.94, "acted": _without_terms(x)}
    )
    return _held_out(solved, [0.3, 0.9, 0.98])


def _hopeless(course: Course) -> Course:
    zero = {"pass@1": 0.0, "reward": 0.0, "flat_groups": 1.0, "advantage.std": 0.0}
    return _held_out(_each(course, lambda _, x: {**zero, "acted": _without_terms(x)}), [0.0], 0.0)


def _falling_pass_rate(course: Course) -> Course:
    return _each(course, lambda n, _: {"pass@1": 0.5 - 0.015 * n, "reward": 0.3 + 0.04 * n})


def _broken_midway(course: Course) -> Course:
    return _each(course, lambda n, line: {} if n < 8 else {"pass@1": 0.05, "reward": 0.05})


def _machine(**free: int) -> Callable[[Course], Course]:
    def plant(course: Course) -> Course:
        early = replace(course, lines=[line for line in course.lines if line["iteration"] <= 6])
        return replace(early, machine=Machine(**free))  # type: ignore[arg-type]

    return plant


def _few_tasks(course: Course) -> Course:
    return _held_out(replace(course, setting=replace(course.setting, eval_tasks=16)), [0.3, 0.35, 0.38], 0.2)


# By what was planted: the name that the doctor must give it, and how it is planted.
PLANTED: dict[str, tuple[str, Callable[[Course], Course]]] = {
    "no answer is ever right": ("no-signal", _hopeless),
    "every answer is right": ("everything-right", _solved),
    "no update is taken": ("no-update", _always(updates=0)),
    "most groups are dropped": ("groups-dropped", _always(groups=2, groups__dropped=30)),
    "rewards differ in the ninth digit": ("rewards-vanish", _always(groups__vanished=6)),
    "rewards of ten million": ("rewards-vanish", _always(groups__merged=4)),
    "right answers earn nothing": ("verdict-and-reward", _always(contradictions=20)),
    "an infinite ratio": ("not-finite", _always(not_finite__ratio=3)),
    "half of the tokens are clipped": ("learning-rate-high", _always(clip_fraction=0.55, approx_kl=0.03)),
    "ratios far from 1": ("learning-rate-high", _always(approx_kl=0.3)),
    "gradients explode": ("learning-rate-high", lambda c: _each(c, lambda n, _: {"grad_norm.policy": 0.5 * 3.0**n})),
    "the policy leaves its reference": ("kl-runaway", lambda c: _each(c, lambda n, _: {"kl.ref": 0.05 * 1.5**n})),
    "copies of weights are stale": ("sampler-gap", _always(sampler_gap=6e-4)),
    "weights of the sampler's correction": ("sampler-gap", _always(weight__importance=1.6)),
    "entropy goes to 0": ("entropy-collapse", lambda c: _each(c, lambda n, _: {"entropy": 0.2 * 0.6**n})),
    "entropy grows": (
        "entropy-explosion",
        lambda c: _each(c, lambda n, _: {"entropy": 0.3 + 0.1 * n, "pass@1": 0.4, "reward": 0.4}),
    ),
    "answers grow and are no better": (
        "length-explosion",
        lambda c: _each(c, lambda n, _: {"length": 30 + 8.0 * n, "pass@1": 0.3 + 0.01 * (n % 2), "reward": 0.3}),
    ),
    "two in five answers are cut": ("truncation", _always(truncated=0.4)),
    "episodes end at the limit of turns": ("turn-limit", _always(turns=8.0, stop__turns=0.9, truncated=0.9)),
    "contexts overflow": ("context-full", _always(turns=8.0, stop__context=0.3, truncated=0.3)),
    "the world does not understand": ("invalid-actions", _always(turns=8.0, invalid=0.8)),
    "reward rises and held-out accuracy falls": ("reward-hacking", lambda c: _held_out(c, [0.35, 0.45, 0.34])),
    "reward rises and fewer answers are right": ("reward-hacking", _falling_pass_rate),
    "training is learnt by heart": ("memorised", lambda c: _held_out(c, [0.27, 0.28, 0.27])),
    "the pass rate collapses midway": ("diverged", _broken_midway),
    "worse than before training": ("diverged", lambda c: _held_out(c, [0.5, 0.4, 0.2])),
    "sixteen held-out tasks": ("noisy-evaluation", _few_tasks),
    "a part that does nothing": (
        "idle-part",
        lambda c: _each(c, lambda _, line: {"acted": {**line["acted"], "shape.Steer": 0}}),
    ),
    "the world crashes": ("world-fails", _always(failures=9, failure="ValueError: no such door")),
    "the judge is down": ("judge-fails", _always(judge__calls=128, judge__failures=40, judge__failure="refused")),
    "the judge writes nonsense": ("judge-fails", _always(judge__calls=128, judge__nonsense=30)),
    "the disk fills": ("disk-full", _machine(disk_free=GB, written_per_iteration=GB)),
    "memory runs out": ("memory-low", _machine(memory_free=GB // 2, memory_total=64 * GB)),
    "GPU memory runs out": ("gpu-memory-low", _machine(gpu_free=GB, gpu_total=80 * GB)),
}
