"""A second wave of rollouts for the tasks that are hard."""

from __future__ import annotations

import torch

from podium.core.errors import one_of, within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.strategies.budgets.allocation import extra_rollouts
from podium.strategies.requests import Plan, Play, TaskRequest
from podium.strategies.sample.sample import Sample

__all__ = ["SecondWave"]


class SecondWave(Strategy):
    """`n` rollouts, then as many more as give a hard task the mass of advantage of one that is solved half of the time.

    A task of accuracy p < 1/2 has the mass 2 p (1 − p) a rollout: see `podium.strategies.budgets.allocation.extra_rollouts`.
    """

    reference = "DARS, https://github.com/yangzhch6/DARS"
    n: int = 8  # rollouts of the first wave
    most: int = 32  # rollouts of both
    schedule: str = "equal"  # equal: hard tasks get the same mass; hardness: harder ones more
    std: bool = False  # whether advantages are divided by the group's std
    temperature: Number = 1.0
    top_p: Number = 1.0

    provides = ("rollout.extra",)

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "most", self.n)
        one_of(self, "schedule", ("equal", "hardness"))
        within(self, "temperature", 0, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)

    def extra(self, accuracy: torch.Tensor) -> torch.Tensor:
        """[task] rollouts of the second wave."""
        return extra_rollouts(accuracy, self.n, self.most, self.schedule, self.std)

    def plan(self, task: TaskRequest) -> Plan:
        sampling = Sample(temperature=self.temperature, top_p=self.top_p).sampling(task.sampling)
        (first,) = yield [Play(task, self.n, sampling, columns={"extra": 0.0})]
        accuracy = sum(r.columns["reward"] for r in first) / self.n  # type: ignore[union-attr]
        extra = int(self.extra(torch.tensor([accuracy], dtype=torch.float64))[0])
        if not extra:
            return first  # type: ignore[return-value]
        (second,) = yield [Play(task, extra, sampling, first=self.n, wave=1, columns={"extra": 1.0})]
        return [*first, *second]
