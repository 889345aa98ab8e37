"""Plans without a model: what is sampled comes from the case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.part import Strategy
from podium.protocols.sampling import Sampling
from podium.strategies.requests import Play, Recite, Request, TaskRequest
from podium.worlds import Task, World

__all__ = ["Answers", "answered", "asking", "collected", "made", "rows"]

Answers = Callable[[Request], Sequence[Any]]


def collected(
    strategy: Strategy, answers: Answers, world: World | None = None, recalled: Mapping[str, Any] | None = None
) -> list[Rollout]:
    """The rollouts that a strategy makes of a task, where `answers` says what comes of each request."""
    return answered(strategy.plan(asking(recalled or {}, world)), answers)


def asking(recalled: Mapping[str, Any], world: World | None = None) -> TaskRequest:
    """A request for rollouts of a task of which this is known."""
    return TaskRequest(Task("task", "question"), 0, Sampling(), (0, 0, 0), recalled, world=world)


def answered(plan: Any, answers: Answers) -> list[Rollout]:
    """What a plan returns, where `answers` says what comes of each request."""
    wave = next(plan)
    while True:
        try:
            wave = plan.send([list(answers(request)) for request in wave])
        except StopIteration as end:
            found: list[Rollout] = end.value
            return found


def made(request: Play | Recite, rewards: Sequence[float], **columns: Sequence[Any]) -> list[Rollout]:
    """What a request asked for, as rollouts of one token with these rewards."""
    first = request.first if isinstance(request, Play) else request.index
    rollouts = []
    for place, reward in enumerate(rewards):
        own = {name: values[place] for name, values in columns.items()}
        known = {
            "reward": float(reward),
            "correct": reward > 0,
            "text": f"rollout {first + place}",
            "purpose": int(request.purpose),
            "index": first + place,
        }
        turn = Turn((1,), context=(2,), tokens={"sampler.logp": (0.0,)})
        rollouts.append(Rollout("task", [turn], columns={**known, **request.columns, **own}))
    return rollouts


def rows(rollouts: Sequence[Rollout]) -> Batch:
    """Those who count, in the order of the group."""
    return Batch.from_rollouts([r for r in rollouts if r.columns["purpose"] == Purpose.train], dtype=torch.float64)
