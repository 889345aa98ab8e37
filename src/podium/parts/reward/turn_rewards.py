"""Rewards of single turns: for progress towards the goal, and the price of invalid and overlong turns."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["ProgressReward", "TurnPenalties"]


class TurnPenalties(Reward):
    """Writes `turn.reward.penalty`: `invalid` for an action that the world refuses, plus `overlong` for a turn that the
    limit of tokens cuts off.

    It is not part of any reward yet: comparisons of steps subtract it from the outcome and from the return of that step
    alone (`GroupInGroup`, `NestedHistories` and `MixtureComponent` with `penalty="step.reward.penalty"`), so that no
    earlier step pays for it.
    """

    reference = "GiGPO, https://github.com/langfengQ/verl-agent"
    invalid: Number = 0.1  # ≥ 0
    overlong: Number = 0.0  # ≥ 0

    provides = ("turn.reward.penalty",)

    def __post_init__(self) -> None:
        within(self, "invalid", 0)
        within(self, "overlong", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("turn.valid", *(("turn.truncated",) if self.overlong else ()))

    def __call__(self, batch: Batch) -> Columns:
        penalty = self.invalid * (~batch["turn.valid"]).to(batch.dtype)
        if self.overlong:
            penalty = penalty + self.overlong * batch["turn.truncated"].to(batch.dtype)
        return {"turn.reward.penalty": penalty}


class ProgressReward(Reward):
    """Verifiable process rewards: `step.reward` is 1 where a step has come nearer to the goal, else 0.

    The outcome, `rollout.reward`, stays as it is.
    """

    reference = "SRGPO, https://github.com/WzcTHU/SeeNav-Agent"
    above: Number = 0.0  # the least progress, exclusive

    needs = ("step.progress",)
    provides = ("step.reward",)

    def __call__(self, batch: Batch) -> Columns:
        return {"step.reward": (batch["step.progress"] > self.above).to(batch.dtype)}
