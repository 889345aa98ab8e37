"""Penalties on hierarchical plans: for keeping a subgoal, and for invalid actions."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["PlanPenalties"]


class PlanPenalties(Reward):
    """Writes `turn.reward.plan`: the turn's reward, plus `keep` if it keeps its subgoal, minus `invalid` for an invalid
    action.

    `normalized` divides `keep` by the number of turns, so that a rollout pays at most `keep`; rollouts of one turn pay
    nothing. `fixed` charges it at every turn. keep = invalid = 0 is the plain reward.
    """

    reference = "HiPER, https://github.com/JonP07/HiPER-agent"
    keep: Number = -0.3  # negative: keeping a subgoal costs
    mode: str = "normalized"  # normalized or fixed
    invalid: Number = 0.1  # ≥ 0

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
