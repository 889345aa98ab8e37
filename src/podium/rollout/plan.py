"""Collecting as data: a strategy is a generator that yields waves of requests and receives their answers.

    def plan(self, task):
        (rollouts,) = yield [Play(task, n=8)]
        return rollouts

The driver pools the requests of all live plans into one continuous batch; nothing waits for anything.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from podium.core.batch import Purpose
from podium.core.build import Rollout
from podium.sampler.request import Completion, Generate, Sampling
from podium.worlds.world import Task

__all__ = ["Plan", "Play", "Request", "TaskRequest", "Wave"]


@dataclass(frozen=True)
class TaskRequest:
    """A task to roll out: its instance in this batch, and how to sample unless the strategy says otherwise."""

    task: Task
    group: int  # the number of the group in the iteration: copies of a task differ by it
    sampling: Sampling
    stream: tuple[int, ...]  # names the group's random numbers


@dataclass(frozen=True)
class Play:
    """n whole episodes of a task, graded by its world. Answered by n rollouts."""

    request: TaskRequest
    n: int = 1
    sampling: Sampling | None = None  # default: the request's
    purpose: Purpose = Purpose.train
    first: int = 0  # the index of the first of them within the group
    wave: int = 0  # which wave of the plan: later waves draw other random numbers
    columns: dict[str, Any] = field(default_factory=dict)  # further columns of the rollouts


Request = Play | Generate
Wave = list[Request]
# Yields waves; receives an answer a request: rollouts for Play, completions for Generate; returns the group's
# rollouts.
Plan = Generator[Wave, list[list[Rollout] | list[Completion]], list[Rollout]]
