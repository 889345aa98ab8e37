"""Reward-dependent sharpness of the reference policy, for a KL term that leaves room to explore."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns
from podium.core.schedule import Number

__all__ = ["ReferencePower"]


class ReferencePower(Annotate):
    """Writes `rollout.power` = low + (high − low) · r, the exponent of the reference policy in a KL term, r ∈ [0, 1].

    Power 1 is the reference itself, 0 the uniform distribution: failed rollouts are anchored to a flatter reference,
    which leaves more room for exploration. low = high = 1 is the plain KL.
    """

    reference = "RAPO: Unlocking Reasoning Capabilities via Reinforcement Learning Exploration"
    low: Number = 0.5  # at reward 0
    high: Number = 1.0  # at reward 1

    needs = ("rollout.reward",)
    provides = ("rollout.power",)

    def __post_init__(self) -> None:
        within(self, "low", 0, 1)
        within(self, "high", 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.power": self.low + (self.high - self.low) * batch["rollout.reward"].clamp(0, 1)}
