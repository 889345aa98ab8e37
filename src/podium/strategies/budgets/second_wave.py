"""A second wave of rollouts for hard tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.errors import one_of, within
from podium.core.part import Strategy
from podium.strategies.budgets.allocation import extra_rollouts
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, rollouts_of
from podium.strategies.sample.sample import Sample

__all__ = ["SecondWave"]


class SecondWave(Strategy):
    """`n` rollouts, then enough more to give a hard task the advantage mass of a task that is solved half of the time.

    A rollout of a task with accuracy p has the advantage mass 2 p (1 − p); tasks with p < 1/2 get more rollouts: see
    `podium.strategies.budgets.allocation.extra_rollouts`.
    """

    reference = "DARS, https://github.com/yangzhch6/DARS"
    n: int = 8  # rollouts of the first wave
    most: int = 32  # rollouts of both waves together at most
    schedule: str = "equal"  # equal: hard tasks get the same mass; hardness: harder tasks get more
    std: bool = False  # whether the method divides advantages by the group's standard deviation
    draw: Draw = Draw()

    provides = ("rollout.extra",)

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "most", self.n)
        one_of(self, "schedule", ("equal", "hardness"))

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["extra"] > 0 for rollout in rollouts)

    def extra(self, accuracy: torch.Tensor) -> torch.Tensor:
        """[task] rollouts of the second wave."""
        return extra_rollouts(accuracy, self.n, self.most, self.schedule, self.std)

    def plan(self, task: TaskRequest) -> Plan:
        first = rollouts_of((yield [self.draw.play(task, self.n, columns={"extra": 0.0})]))
        accuracy = sum(r.columns["reward"] for r in first) / self.n
        extra = int(self.extra(torch.tensor([accuracy], dtype=torch.float64))[0])
        if not extra:
            return first
        play = self.draw.play(task, extra, first=self.n, wave=1, columns={"extra": 1.0})
        return [*first, *rollouts_of((yield [play]))]
