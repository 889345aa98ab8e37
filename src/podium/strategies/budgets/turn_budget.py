"""Turn budgets: a limit of turns that the model is told, derived from how many turns earlier episodes took."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from podium.core.build import Rollout
from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.protocols.context import Context, Full, History, Message
from podium.strategies.draw import Draw, refuse_settings
from podium.strategies.requests import Plan, TaskRequest, rollouts_of

__all__ = ["BudgetedTurns", "TurnsLeft", "granted"]


def granted(used: float, start: int, step: int, cap: int) -> tuple[int, int]:
    """The turn limit of an episode that needs `used` turns, and how often it was extended from `start` to reach it."""
    limit, extensions = start, 0
    while used > limit and limit < cap:
        limit, extensions = min(limit + step, cap), extensions + 1
    return limit, extensions


class TurnsLeft(Context):
    """The whole episode, with the number of turns left under the current limit below the last observation."""

    start: int  # the first limit
    step: int = 10  # turns of an extension
    cap: int = 0  # the last limit; 0: the start, which is then fixed

    def __post_init__(self) -> None:
        within(self, "start", 1)
        within(self, "step", 1)

    def __call__(self, history: History) -> Sequence[Message]:
        (*earlier, last), used = Full()(history), len(history.exchanges)
        assert isinstance(last, str)
        limit, _ = granted(used + 1, self.start, self.step, max(self.cap, self.start))
        left = max(limit - used, 0)
        return [*earlier, last + f"\n{left} turn{'' if left == 1 else 's'} left."]


class BudgetedTurns(Strategy):
    """`n` rollouts with a turn limit that the model is told, extended by `step` while needed, up to `cap`.

    Limits are rounded to whole turns, half to even. `start` = `cap` is a fixed limit; `cap` = 0 leaves the world's own
    limit. A rollout that is cut off at the limit is `truncated`.
    """

    reference = "More with Less: Turn-Control Strategies for Efficient Coding Agents"
    n: int = 8
    start: Number = 0  # turns
    cap: Number = 0  # turns
    step: int = 10  # turns
    draw: Draw = Draw()  # without context and max_turns

    provides = ("rollout.extensions",)

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "start", 0)
        within(self, "cap", 0)
        within(self, "step", 1)
        refuse_settings(self, self.draw, "context", "max_turns")

    def limits(self) -> tuple[int, int] | None:
        """The first and the last limit in whole turns; None: no limit of its own."""
        if float(self.cap) == 0:
            return None
        cap = max(round(float(self.cap)), 1)
        return min(max(round(float(self.start)), 1), cap), cap

    def plan(self, task: TaskRequest) -> Plan:
        limits = self.limits()
        if limits is None:
            rollouts = rollouts_of((yield [self.draw.play(task, self.n)]))
            return [_with_extensions(r, 0) for r in rollouts]
        start, cap = limits
        play = self.draw.play(task, self.n, context=TurnsLeft(start, self.step, cap), max_turns=cap)
        rollouts = rollouts_of((yield [play]))
        return [_with_extensions(r, granted(len(r.turns), start, self.step, cap)[1]) for r in rollouts]


def _with_extensions(rollout: Rollout, count: int) -> Rollout:
    return dataclasses.replace(rollout, columns={**rollout.columns, "extensions": float(count)})
