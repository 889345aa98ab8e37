"""Penalties on hierarchical plans: for keeping a subgoal, for changing its words, and for invalid actions."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["PlanPenalties"]


class PlanPenalties(Reward):
    """Writes `turn.reward.plan`: the turn's reward times `scale`, plus `keep` if it keeps its subgoal, plus `reworded`
    if it keeps it in other words, minus `invalid` for an invalid action.

    `normalized` divides `keep` by the number of turns, so that a rollout pays at most `keep`; rollouts of one turn pay
    nothing. `fixed` charges it at every turn. keep = reworded = invalid = 0 and scale = 1 is the plain reward.
    """

    reference = "HiPER, https://github.com/JonP07/HiPER-agent"
    keep: Number = -0.3  # negative: keeping a subgoal costs
    mode: str = "normalized"  # normalized or fixed
    invalid: Number = 0.1  # ≥ 0
    reworded: Number = 0.0  # negative: changing the words of a kept subgoal costs
    scale: Number = 1.0  # of the world's reward

    provides = ("turn.reward.plan", "rollout.switches")

    def __post_init__(self) -> None:
        one_of(self, "mode", ("normalized", "fixed"))
        within(self, "invalid", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        reworded = () if self.reworded == 0 else ("turn.reworded",)
        return ("turn.reward", "turn.switch", "turn.valid", *reworded)

    def __call__(self, batch: Batch) -> Columns:
        turns, keeps = batch.partition("turn", "rollout"), ~batch["turn.switch"]
        length = turns.spread(turns.lengths()).to(batch.dtype)
        price = float(self.keep) / length.where(length > 1, float("inf")) if self.mode == "normalized" else self.keep
        reward = (
            self.scale * batch["turn.reward"] + (price * keeps.to(batch.dtype)) - self.invalid * (~batch["turn.valid"])
        )
        if self.reworded != 0:
            reward = reward + self.reworded * batch["turn.reworded"].to(batch.dtype)
        return {"turn.reward.plan": reward, "rollout.switches": turns.total((~keeps).to(batch.dtype))}
