"""Rewards that depend on how likely the answer was."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["RankDiscount"]

OLD = Signal("logp", of="old")


class RankDiscount(Reward):
    """r · (1 − beta · rank / G), the rank by mean token log-probability in the group: 0 for the least likely of G."""

    reference = "Rewarding the Unlikely, https://github.com/AndreHe02/rewarding-unlikely-release"
    beta: Number = 0.25  # below 1 a right answer keeps more than a wrong one

    needs = ("rollout.reward", OLD)
    provides = ("rollout.reward", "rollout.reward.rank")

    def __post_init__(self) -> None:
        within(self, "beta", 0)

    def likelihood(self, batch: Batch) -> Tensor:
        """[rollout] the mean log-probability of its tokens."""
        return batch.reduce(batch[OLD], "token", "rollout", "mean")

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.by("rollout", "group")
        rank = groups.rank(self.likelihood(batch)).clamp(min=0)  # who does not count has none
        loss = -reward * self.beta * rank / groups.count().clamp(min=1)
        return {"rollout.reward": reward + loss, "rollout.reward.rank": loss}
