"""How many turns an episode may take, from how many episodes have taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from podium.core.errors import PodiumError, within
from podium.core.schedule import Number
from podium.protocols.context import Context, Full, History, Message
from podium.strategies.requests import Plan, TaskRequest
from podium.strategies.sample.sample import Sample

__all__ = ["BudgetedTurns", "TurnsLeft", "granted"]


def granted(used: float, start: int, step: int, cap: int) -> tuple[int, int]:
    """The limit for an episode that needs so many turns, and how often it was extended, from `start` up to `cap`."""
    limit, extensions = start, 0
    while used > limit and limit < cap:
        limit, extensions = min(limit + step, cap), extensions + 1
    return limit, extensions


class TurnsLeft(Context):
    """Everything, and below the last observation how many turns are left of the limit in force."""

    start: int
    step: int = 10
    cap: int = 0  # 0: the start, a fixed limit

    def __post_init__(self) -> None:
        within(self, "start", 1)
        within(self, "step", 1)

    def __call__(self, history: History) -> Sequence[Message]:
        messages, used = list(Full()(history)), len(history.exchanges)
        limit, _ = granted(used + 1, self.start, self.step, max(self.cap, self.start))
        left = max(limit - used, 0)
        return [*messages[:-1], f"{messages[-1]}\n{left} turn{'' if left == 1 else 's'} left."]


class BudgetedTurns(Sample):
    """Rollouts with a limit of turns that they are told, extended by `step` while it is needed, at most to `cap`.

    Limits are rounded to whole turns, half to even; `start` = `cap` is a fixed limit, a cap of 0 is the world's own. A
    rollout that is cut is `truncated`.
    """

    reference = "More with Less: Turn-Control Strategies for Efficient Coding Agents"
    start: Number = 0  # turns
    cap: Number = 0
    step: int = 10

    provides = ("rollout.extensions",)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "start", 0)
        within(self, "cap", 0)
        within(self, "step", 1)
        if self.context is not None or self.max_turns is not None:
            raise PodiumError("BudgetedTurns sets the context and the limit of turns itself: leave them out.")

    def limits(self) -> tuple[int, int] | None:
        """The first limit and the last one in whole turns; None: there are none yet."""
        if float(self.cap) == 0:
            return None
        cap = max(round(float(self.cap)), 1)
        return min(max(round(float(self.start)), 1), cap), cap

    def plan(self, task: TaskRequest) -> Plan:
        limits, plain = self.limits(), Sample(**{f: getattr(self, f) for f in Sample.field_names()})
        if limits is not None:
            plain = plain.replace(context=TurnsLeft(limits[0], self.step, limits[1]), max_turns=limits[1])
        rollouts = yield from plain.plan(task)
        found = []
        for r in rollouts:
            count = 0 if limits is None else granted(len(r.turns), limits[0], self.step, limits[1])[1]
            found.append(dataclasses.replace(r, columns={**r.columns, "extensions": float(count)}))
        return found
