"""Strategies with one plan for all tasks of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.part import Strategy
from podium.strategies.requests import Plan, TaskRequest

__all__ = ["JointStrategy"]


class JointStrategy(Strategy):
    """The tasks of a batch share something, such as a budget or a list of texts: one plan makes the rollouts of all."""

    def plans(self, tasks: Sequence[TaskRequest]) -> list[Plan]:
        return [self.together(tasks)]

    def plan(self, task: TaskRequest) -> Plan:
        return self.together([task])

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        """A generator that yields waves of requests and returns the rollouts of all tasks."""
        raise NotImplementedError
