"""Being sure pays when right, being unsure pays when wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["DecisiveReward"]


class DecisiveReward(Reward):
    """r = (1 − format) · r + format · [there is reasoning before an answer] + c(h), with h the normalised entropy of
    the decision. With w = `weight`:

        right:  c = w for h ≤ low, then w (high − h) / (high − low), and 0 from `high` on
        wrong:  c = −penalty · w for h ≤ low, then with f = (h − low) / (high_wrong − low)
                −penalty · w + (w f + penalty · w) f, and w from `high_wrong` on

    Any reward above 0 counts as right. c = 0 where no answer was given. weight = 0 is accuracy and format. The wrong
    branch is quadratic in f, as released.
    """

    reference = "ExPO-HM, https://github.com/JingbiaoMei/ExPO-HM"
    weight: Number = 0.2  # w
    low: float = 0.1  # in [0, 1]
    high: float = 0.5  # above low
    high_wrong: float = 0.5  # above low
    penalty: Number = 0.25  # of being sure and wrong, as a share of w
    format: Number = 0.1  # share of the format, in [0, 1]

    needs = ("rollout.reward", "rollout.decision.entropy", "rollout.decided", "rollout.explained")
    provides = ("rollout.reward", "rollout.reward.decision")

    def __post_init__(self) -> None:
        within(self, "low", 0, 1)
        within(self, "format", 0, 1)
        for name in ("high", "high_wrong"):
            if getattr(self, name) <= self.low:
                raise PodiumError(f"DecisiveReward.{name} = {getattr(self, name)} must be above low = {self.low}.")

    def decision(self, h: Tensor, right: Tensor) -> Tensor:
        """[rollout] c."""
        w, most = self.weight, self.penalty * self.weight
        sure = (w * (self.high - h) / (self.high - self.low)).clamp(min=min(w, 0), max=max(w, 0))
        f = ((h - self.low) / (self.high_wrong - self.low)).clamp(0, 1)
        return torch.where(right, sure, (w * f + most) * f - most)

    def __call__(self, batch: Batch) -> Columns:
        reward = batch["rollout.reward"]
        h = batch["rollout.decision.entropy"].to(batch.dtype)
        c = self.decision(h, reward > 0).where(batch["rollout.decided"] > 0, 0)
        formatted = batch["rollout.explained"].to(batch.dtype)
        return {
            "rollout.reward": (1 - self.format) * reward + self.format * formatted + c,
            "rollout.reward.decision": c,
        }
