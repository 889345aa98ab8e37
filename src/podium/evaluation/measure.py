"""Measuring a model on held-out tasks of a world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from podium.collect.driver import Driver
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.part import Strategy
from podium.evaluation.passk import bootstrap_interval, majority_at_k, pass_at_k, share_interval
from podium.evaluation.resample import Measure
from podium.method import Method
from podium.protocols.context import Context
from podium.protocols.format import Format, turn_limit
from podium.protocols.sampling import Sampling
from podium.protocols.scaffold import Scaffold
from podium.protocols.world import World, task_of
from podium.strategies.requests import Plan, Play, TaskRequest

__all__ = ["Measure", "failure_note", "formatted_strategy", "held_out", "measure", "held_out_requests"]

# Evaluation draws from streams that training never uses.
EVALUATION = 1 << 40


def held_out(
    driver: Driver,
    *,
    tasks: int,
    samples: int,
    max_tokens: int | None = None,
    seed: int = 0,
    temperature: float = 1.0,
    method: Method | None = None,
    shown: tuple[str, str] = ("", ""),
) -> list[list[Rollout]]:
    """`samples` rollouts of each of the first `tasks` tasks of the world's test split.

    A policy that `method` trains in a format is asked for it here, within its grammar, and sees what its turns are
    trained after. `shown` are the texts above and below each question that a method has learnt in
    place of weights, or beside them.
    """
    strategy = formatted_strategy(method)
    format = None if strategy is None else strategy.format
    limit = turn_limit(driver.world, format) if max_tokens is None else max_tokens
    grammar = None if strategy is None else getattr(strategy.draw, "grammar", None)
    sampling = Sampling(max_tokens=limit, temperature=temperature, grammar=grammar)
    requests = held_out_requests(driver.world, tasks, sampling, seed, format)
    context = getattr(strategy.draw, "context", None) if strategy is not None else None
    if any(shown):
        above, below = shown
        context = Scaffold(above=above, below=below, base=context or driver.world.context)
    return driver.collect([_plan(request, samples, context) for request in requests])


def formatted_strategy(method: Method | None) -> Strategy | None:
    """The strategy whose format a method's policy is to write in the end; None: it has no format."""
    strategy = None if method is None else method.main().rollout
    return None if strategy is None or strategy.format is None else strategy


def held_out_requests(
    world: World, tasks: int, sampling: Sampling, seed: int = 0, format: Format | None = None
) -> list[TaskRequest]:
    """The first `tasks` tasks of the world's test split, with the random streams of an evaluation."""
    size = world.size("test")
    count = tasks if size is None else min(tasks, size)
    if count == 0:
        task_of(world, 0, "test")  # a world may know what to do about it
        raise PodiumError(f"The world {world.name!r} has no held-out tasks.")
    return [
        TaskRequest(task_of(world, number, "test"), number, sampling, (seed, EVALUATION, number), format=format)
        for number in range(count)
    ]


def _plan(request: TaskRequest, samples: int, context: Context | None) -> Plan:
    (rollouts,) = yield [Play(request, samples, context=context)]
    return rollouts  # type: ignore[return-value]


def measure(groups: Sequence[Sequence[Rollout]], ks: Sequence[int] = (1,)) -> dict[str, Measure]:
    """pass@k, avg@k, maj@k, distinct right answers, length and entropy, each with an interval over tasks; where the
    world has failed, how often."""
    correct = [[bool(r.columns["correct"]) for r in group] for group in groups]
    answers = [[str(r.columns["answer"]) for r in group] for group in groups]
    per_task: dict[str, list[float]] = {"reward": [_mean([r.columns["reward"] for r in g]) for g in groups]}
    for k in ks:
        per_task[f"pass@{k}"] = [pass_at_k(len(c), sum(c), k) for c in correct]
        if k > 1:
            per_task[f"avg@{k}"] = [_mean(c[:k]) for c in correct]
            per_task[f"maj@{k}"] = [majority_at_k(a, c, k) for a, c in zip(answers, correct, strict=True)]
    per_task["distinct"] = [
        float(len({a for a, right in zip(group, c, strict=True) if right}))
        for group, c in zip(answers, correct, strict=True)
    ]
    per_task["length"] = [_mean([sum(len(t.ids) for t in r.turns) for r in g]) for g in groups]
    per_task["entropy"] = [_mean([h for r in g for t in r.turns for h in _entropies(t)]) for g in groups]
    if any("well_formed" in r.columns for g in groups for r in g):  # the share of turns
        formed = [[float(t.columns["well_formed"]) for r in g for t in r.turns] for g in groups]
        per_task["well_formed"] = [_mean(turns) for turns in formed]
    failed = [_mean([bool(r.columns.get("failure")) for r in g]) for g in groups]
    if any(failed):
        per_task["failed"] = failed
    return {name: Measure(_mean(values), *_interval(name, values)) for name, values in per_task.items()}


def _entropies(turn: Turn) -> Sequence[float]:
    """The entropy of what each token was drawn from, or else its -log p, whose mean is the same in expectation."""
    tokens = turn.tokens
    return tokens["sampler.entropy"] if "sampler.entropy" in tokens else [-p for p in tokens.get("sampler.logp", ())]


def _interval(name: str, values: Sequence[float]) -> tuple[float, float]:
    """The interval of a mean over tasks."""
    share = name.startswith(("pass@", "avg@", "maj@")) or name in ("well_formed", "failed")
    return share_interval(values) if share else bootstrap_interval(values)


def failure_note(groups: Sequence[Sequence[Rollout]]) -> str:
    """Why the world failed, of the first rollout in which it did; empty where it never did."""
    return next((str(r.columns["failure"]) for g in groups for r in g if r.columns.get("failure")), "")


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
