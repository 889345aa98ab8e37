"""A novelty bonus for right answers that the policy finds unlikely."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["Novelty"]

OLD = Signal("logp", of="old")
CLAMP = 20.0  # the largest log eta: above 0 there is no bonus, and the exponential of anything stays finite


class Novelty(Shape):
    """Novelty bonus for right answers: A + min(max(strength · (1 − eta), 0), cap · A) where the reward is above 0.

    eta = exp(s − mean s of the group), with s the mean log-probability of an answer's tokens, is below 1 for an answer
    that is less likely than the others. Wrong answers keep their advantage.
    """

    reference = "XRPO, https://github.com/UIUC-MLSys/XRPO"
    strength: Number = 2.5  # the size of the bonus; 0: none
    cap: Number = 0.5  # the largest bonus, as a share of the advantage

    needs = ("rollout.advantage", "rollout.reward", OLD)
    provides = ("rollout.advantage", "rollout.novelty")

    def __post_init__(self) -> None:
        within(self, "strength", 0)
        within(self, "cap", 0)

    def mean_logp(self, batch: Batch) -> Tensor:
        """[rollout] s."""
        return batch.reduce(batch[OLD], "token", "rollout", "mean")

    def rarity(self, batch: Batch) -> Tensor:
        """[rollout] eta: below 1 where an answer is rarer than the group's average."""
        return batch.by("rollout", "group").centre(self.mean_logp(batch)).clamp(max=CLAMP).exp()

    def __call__(self, batch: Batch) -> Columns:
        a, eta = batch["rollout.advantage"], self.rarity(batch)
        bonus = torch.minimum((self.strength * (1 - eta)).clamp(min=0), self.cap * a)
        return {"rollout.advantage": a + bonus.where(batch["rollout.reward"] > 0, 0), "rollout.novelty": 1 - eta}
