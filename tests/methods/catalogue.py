"""What tests of the whole catalogue share: small runs, and worlds that fit or that go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any
from unittest.mock import patch

import torch

from podium import methods, worlds
from podium import policy as policies
from podium.core.errors import PodiumError
from podium.method import Home, Method
from podium.methods.catalogue import RECIPES, home_of
from podium.policy import Policy
from podium.sessions.train import configure
from podium.strategies import SolutionShares
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.worlds import Episode, Feedback, Sums, Task, Verdict, World

__all__ = [
    "NAMES",
    "SLUGS",
    "Laps",
    "Right",
    "RightLaps",
    "Wrong",
    "WrongLaps",
    "errors",
    "finite",
    "fitting",
    "has_signal",
    "in_words",
    "lines",
    "silent",
    "small",
    "tiny",
    "wide",
]

SLUGS = list(RECIPES)
NAMES = [name for slug in SLUGS for name in (slug, *(f"{slug}@{preset}" for preset in RECIPES[slug].presets))]
# What a method is given where its paper's defaults make no sense on a few short answers.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "arrol": {"detect": 8, "cold": 1},  # a third of an answer, and pruning from the second iteration on
    "cure": {"first": 1},
    "deepsearch": {"width": 3, "max_depth": 6, "round_length": 1, "pool": 2},
    "archer": {"critic_epochs": 3, "warmup": 0},  # 50 and 20 take longer than a test may
    "dr-kernel": {"profiled": False},  # no embedded world runs kernels
    # Without the imitation before it, so that a few iterations reach what follows.
    **{slug: {"imitate": 0} for slug in ("hiper", "rlvmr", "iterresearch-eapo", "pear")},
    **{slug: {"imitate": 0} for slug in ("clinical-r1", "multirole-r1", "info-consistent-grpo", "advevo-marl")},
    "doge": {"n": 2, "answers": 2, "cycles": 1, "first": 1},
    "earl-video": {"imitate": 0},
    "expo-hm": {"imitate": 1, "first": 1},
    "read": {"imitate": 0, "n": 2, "warmup": 0, "epochs": 1},
    "fleming-r1": {"imitate": 0, "first": 1, "rounds": (1, 1)},
    "guru": {"measure": 0},
    "ap-grpo": {"first": 1, "whole": ""},
    "arpo": {"imitate": 0, "tools": None},
    "bpo": {"epochs": 1, "mini_batches": 4},
    "spo-single-stream": {"offline": 0},  # no measuring phase before it, and no warm start
    "t1": {"warm": 0},
    "arenarl": {"imitate": 0},
    "arenarl@pointwise": {"imitate": 1},  # a model that writes no plan earns nothing
    "earl-rtl": {"cascade": False},  # few worlds check what is written
    "gcpo-geometryzero": {"asks": ("", ""), "imitate": 0},  # and neither instructions
    "icpo": {"examples": SolutionShares((0.5,), "lines")},  # nor examples: it knows hints
    "ruscarl": {"steps": 20},
    "scaf-grpo": {"after": 0},
    "trapo": {"labelled": 0.5, "warmup": 1},
    # A small model knows a question alone, and one with an earlier attempt, which stands here for the plan.
    "himac": {"ask": "", "show": "{observation}\nattempt: {plan}", "imitate": 0},
    # Every phase within a few iterations, and replays at once; here a turn that says something counts as a call.
    "drive": {"first": 1, "keep": (2, 1), "iterations": (1, 1), "pool": 2},
    "skywork-r1v2": {"first": 1},
    "causalrm": {"react": 1, "fit": 1, "epochs": 1},
    "dpa": {"first": 1},
    "rulereasoner": {"every": 1},
    # With views, so that they meet a world whose every task leaves a choice.
    **{slug: {"views": 4, "share": 0.5} for slug in ("rlcf", "rlcf@entropy", "rlcf@captions", "rlcf@paper")},
    "spear": {"count": 2, "calls": "turn.valid", "replay_over": 2},
    "spae": {"after": "\n", "boxed": False, "imitate": 0},  # steps are lines
    # At 0.6 nearly all are right.
    "grpo-tcr": {"max_length": 48, "buffer": 16},
    "spo": {"branches": (2, 2), "window": 6, "probes": 2, "temperature": 1.0, "mini_batches": 1},
    "inspo": {"start": ((),), "every": 2.0},  # podium/tiny knows no advice
    "sparkle": {"first": 1},
    "search-r2": {"n": 3},
    # podium/tiny does not say yes or no, but its last line may be an answer.
    "knowrl": {"n": 2, "k": 4, "trials": 2, "tokens": 24, "replies": ("answer", "no")},
    "knowrl@paper": {"k": 4, "trials": 2, "alike": 1.0, "tokens": 12, "replies": ("answer", "no")},
    "knowrl@votes": {"k": 4, "trials": 2, "tokens": 12, "replies": ("answer", "no")},
    "tppo": {"n": 4, "window": 24},  # some answers end in it, others take two iterations
}

# Nobody has taught a small model the tags that these ask for.
PLAIN_TEXT = ("iterresearch-eapo", "pear", "fleming-r1")


# -- worlds ------------------------------------------------------------------------------------------------------------


class Right(Sums):
    """Whatever is said is right."""

    def read(self, text: str) -> str:
        return super().read(text) or ""

    def verdict(self, task: Task, answer: str) -> Verdict:
        return Verdict(True, answer)


class Wrong(Sums):
    """Whatever is said is wrong."""

    def verdict(self, task: Task, answer: str) -> Verdict:
        return Verdict(False, answer)


class Laps(Sums):
    """The same question twice, each time graded: turns, and states that rollouts share."""

    provides = (
        *(*Sums.provides, "turn.reward", "turn.state", "turn.next_state"),
        *("turn.action", "turn.valid", "turn.progress", "rollout.reference_answer"),
    )
    blank = {"reference_answer": ""}

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Lap(self, task, seed)


class _Lap(Episode):
    def __init__(self, world: Laps, task: Task, seed: int) -> None:
        super().__init__(task.prompt, state="first")
        self.world, self.task, self.seed = world, task, seed

    def act(self, text: str) -> Feedback:
        graded = self.world.grade(self.task, text, self.seed)
        over, self.state = self.state == "second", "over" if self.state == "second" else "second"
        info = {**graded.info, "valid": bool(graded.info["answer"]), "progress": graded.reward}
        info["reference_answer"] = self.world.reference(self.task)
        return Feedback(graded.reward, over, self.task.prompt, self.state, info)


class RightLaps(Right, Laps):
    """Two turns, both right whatever is said."""


class WrongLaps(Wrong, Laps):
    """Two turns, both wrong whatever is said."""


def errors(method: Method, world: World) -> list[str]:
    """Why the method cannot run there."""
    return [f.message for f in method.check(world.provides) if f.kind == "error"]


def fitting(method: Method, others: Iterable[World] = ()) -> World | None:
    """The first world in which the method can run: sums, on a level that a small model half knows, one of these
    others, another embedded one, or its home with its dials."""
    embedded = (worlds.get(name) for name in worlds.EMBEDDED if name != "sums")
    home = home_of(method.name) if method.name.partition("@")[0] in RECIPES else Home()
    known = (worlds.get("sums", level=2), *others, *embedded, worlds.get(home.world, **home.world_settings))
    return next((world for world in known if not errors(method, world)), None)


# -- small runs --------------------------------------------------------------------------------------------------------


@cache
def tiny() -> Policy:
    """The embedded model, loaded once; runs train copies of it."""
    return policies.load("podium/tiny")


def _for(world: World) -> Policy:
    """The embedded model that plays in a world: one that chooses, one that draws, or the one that writes."""
    kinds = {"task.options": "podium/chooser", "task.drawing": "podium/flow"}
    name = next((model for ability, model in kinds.items() if ability in world.provides), None)
    return tiny() if name is None else _network(name)


@cache
def _network(name: str) -> Policy:
    return policies.load(name)


@cache
def silent() -> Policy:
    """The same with the end of the answer as by far the likeliest token after a question."""
    policy = tiny().copy()
    context = policy.encode([{"role": "user", "content": worlds.get("sums", level=2).task(0).prompt}])
    with torch.no_grad():
        state = policy.model.model(torch.tensor([context])).last_hidden_state[0, -1]  # type: ignore[operator,union-attr]
        policy.model.get_input_embeddings().weight[policy.end_ids[0]] = 40 * state / state.norm()  # type: ignore
    policy.bump()
    return policy


def small(method: str | Method, n: int = 4) -> Method:
    """The method with groups of at most `n` rollouts, where it allows so few."""
    if isinstance(method, str):
        slug = method.partition("@")[0]
        method = methods.get(method, **SETTINGS.get(method, SETTINGS.get(slug, {})))
        method = method.each(_in_plain_text) if slug in PLAIN_TEXT else method
    return method.each(lambda m: _fewer(m, n))


def _in_plain_text(method: Method) -> Method:
    draw = method.rollout.draw if method.rollout is not None else None
    return method if draw is None else method.set("rollout.draw.format", None)


def _fewer(method: Method, n: int) -> Method:
    strategy = method.rollout
    if strategy is None or strategy.n is None or strategy.n <= n:
        return method
    changes: dict[str, Any] = {"n": n}
    if getattr(strategy, "trained", None) is not None:
        changes["trained"] = max(n // 2, 1)
    with suppress(PodiumError):
        return method.with_(rollout=strategy.replace(**changes))
    return method


def lines(
    method: Method, world: World, iterations: int = 1, policy: Policy | None = None, **settings: Any
) -> list[dict[str, Any]]:
    """The metrics of a few iterations, without evaluations or a run directory."""
    source = policy or _for(world)
    sizes = {"tasks": 2, "iterations": iterations, "max_tokens": world.max_tokens}  # also of exact protocols
    with patch.object(policies, "load", lambda *_, **__: source.copy()):
        run = build_run(configure(method, **{"world": world, **sizes, **settings}))
    return [iterate(run)[1] for _ in range(iterations)]


def finite(found: Iterable[Mapping[str, Any]]) -> bool:
    return all(math.isfinite(x) for line in found for x in line.values() if isinstance(x, float))


def has_signal(found: Iterable[Mapping[str, Any]]) -> bool:
    return any(line.get("grad_norm.policy", 0.0) > 0 for line in found)


def wide(method: Method) -> dict[str, int]:
    """Settings with enough tasks that some answers are right and others wrong, where a task is answered once."""
    return {"tasks": 8} if any(leaf.rollout is not None and leaf.rollout.n == 1 for leaf in method.leaves()) else {}


def in_words(case: Callable[[], Iterable[Mapping[str, Any]]]) -> bool:
    """Whether a run has finite metrics, or is refused with a sentence."""
    try:
        return finite(case())
    except PodiumError as problem:
        return len(str(problem).split()) >= 8
