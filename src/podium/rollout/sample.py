"""The plain strategy: n independent rollouts of each task."""

from __future__ import annotations

from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Number

__all__ = ["Sample"]


class Sample(Strategy):
    """`n` rollouts of each task, and one greedy rollout of purpose `baseline` if asked."""

    n: int = 8
    temperature: Number = 1.0
    top_p: Number = 1.0
    greedy_baseline: bool = False

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "temperature", 0, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)
