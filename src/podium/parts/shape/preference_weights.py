"""Weights of the policy gradient and of the KL penalty that depend on how a rollout did beside its group."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number

__all__ = ["PreferenceWeights"]


class PreferenceWeights(Shape):
    """With δ = r − the group's mean, `rollout.policy_weight` = 1 + strength · δ and `rollout.kl_weight` = kl · (1 −
    strength · δ), neither below 0: successes count more in the policy gradient and are held less to the reference.

    Terms take them by `weight=`; kl is the coefficient of the KL penalty. strength = 0 weighs all alike. Weighted
    advantages no longer sum to 0 in a group: there is a net push up on what is better than its mean.
    """

    reference = "HART, https://arxiv.org/abs/2602.23615"
    strength: Number = 0.6  # k, ≥ 0
    kl: Number = 0.04  # ≥ 0

    needs = ("rollout.reward",)
    provides = ("rollout.policy_weight", "rollout.kl_weight")

    def __post_init__(self) -> None:
        within(self, "strength", 0)
        within(self, "kl", 0)

    @property
    def neutral(self) -> PreferenceWeights:
        return self.replace(strength=0.0)

    def __call__(self, batch: Batch) -> Columns:
        tilt = self.strength * batch.by("rollout", "group").centre(batch["rollout.reward"])
        return {
            "rollout.policy_weight": (1 + tilt).clamp(min=0),
            "rollout.kl_weight": self.kl * (1 - tilt).clamp(min=0),
        }
