"""Prices of plans that are kept for too long, or not kept."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["PlanPenalties"]


class PlanPenalties(Reward):
    """`turn.reward.plan`: the reward of a turn + keep where it keeps its subgoal − invalid where its action is none.

    `normalized` spreads keep over the turns of a rollout: keep · (share of turns that keep) in all, in rollouts of
    more than one turn; `fixed` takes it at each.
    """

    reference = "HiPER, https://github.com/JonP07/HiPER-agent"
    keep: Number = -0.3
    mode: str = "normalized"  # or fixed
    invalid: Number = 0.1

    needs = ("turn.reward", "turn.switch", "turn.valid")
    provides = ("turn.reward.plan", "rollout.switches")

    def __post_init__(self) -> None:
        one_of(self, "mode", ("normalized", "fixed"))
        within(self, "invalid", 0)

    def __call__(self, batch: Batch) -> Columns:
        turns, keeps = batch.partition("turn", "rollout"), ~batch["turn.switch"]
        length = turns.spread(turns.lengths()).to(batch.dtype)
        price = float(self.keep) / length.where(length > 1, float("inf")) if self.mode == "normalized" else self.keep
        reward = batch["turn.reward"] + (price * keeps.to(batch.dtype)) - self.invalid * (~batch["turn.valid"])
        return {"turn.reward.plan": reward, "rollout.switches": turns.total((~keeps).to(batch.dtype))}
