"""Strategies that ask something about the rollouts of another one, which they leave as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, SubPlan, TaskRequest
from podium.strategies.sample.sample import Sample

__all__ = ["OfRollouts", "with_columns"]


class OfRollouts(Strategy):
    """The rollouts of another strategy, with further columns: subclasses say how each group gets them (`asked`)."""

    strategy: Strategy = Sample(n=8)

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.strategy.needs

    @property
    def provides(self) -> tuple[str, ...]:
        return self.strategy.provides

    @property
    def n(self) -> int | None:
        return self.strategy.n

    @property
    def draw(self) -> Draw | None:
        return self.strategy.draw  # type: ignore[return-value]

    @property
    def temperature(self) -> Number:
        return self.strategy.temperature

    @property
    def format(self) -> Any:
        return self.strategy.format

    @property
    def draw_shift(self) -> Signal | None:
        return self.strategy.draw_shift

    @property
    def writers(self) -> tuple[str, ...]:
        return self.strategy.writers

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return self.strategy.roles_asked

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        return self.strategy.prepare(world)

    def plan(self, task: TaskRequest) -> Plan:
        return self._asking(self.strategy.plan(task), [task])

    def plans(self, tasks: Sequence[TaskRequest]) -> list[Plan]:
        plans = self.strategy.plans(tasks)
        together = len(plans) != len(tasks)  # one plan for all tasks
        return [self._asking(plan, tasks if together else [tasks[number]]) for number, plan in enumerate(plans)]

    def _asking(self, plan: Plan, tasks: Sequence[TaskRequest]) -> Plan:
        rollouts = yield from plan
        result: list[Rollout] = []
        for task in tasks:
            own = [r for r in rollouts if len(tasks) == 1 or r.group == task.group]
            if own:
                result += yield from self.asked(task, own)
        return result

    def asked(self, task: TaskRequest, rollouts: Sequence[Rollout]) -> SubPlan:
        """A sub-plan that returns the rollouts of a group with the new columns."""
        raise NotImplementedError


def with_columns(rollout: Rollout, columns: dict[str, Any]) -> Rollout:
    """The rollout with further columns."""
    return dataclasses.replace(rollout, columns={**rollout.columns, **columns})
