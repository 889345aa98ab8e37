"""Rollouts of policies that choose among options instead of writing text."""

from __future__ import annotations

from podium.core.errors import within
from podium.core.part import Strategy
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, rollouts_of

__all__ = ["Choose"]


class Choose(Strategy):
    """`n` independent rollouts of each task, in a world whose every turn is a choice among options."""

    n: int = 8
    draw: Draw = Draw()

    needs = ("task.options",)

    def __post_init__(self) -> None:
        within(self, "n", 1)

    @property
    def neutral(self) -> Choose:
        return self  # plain sampling already

    def plan(self, task: TaskRequest) -> Plan:
        return rollouts_of((yield [self.draw.play(task, self.n)]))
