"""The unlikeliness reward: likely answers earn less, which counters rank bias."""

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
    """Discounts the reward of likely answers: r · (1 − beta · rank / G), which favours unlikely right ones.

    The rank among the G rollouts of the group is by mean token log-probability, 0 for the least likely. beta = 0 is
    the plain reward.
    """

    reference = "Rewarding the Unlikely, https://github.com/AndreHe02/rewarding-unlikely-release"
    beta: Number = 0.25  # ≥ 0; below 1 every right answer keeps a positive reward

    needs = ("rollout.reward", OLD)
    provides = ("rollout.reward", "rollout.reward.rank")

    def __post_init__(self) -> None:
        within(self, "beta", 0)

    def likelihood(self, batch: Batch) -> Tensor:
        """[rollout] The mean log-probability of its tokens."""
        return batch.reduce(batch[OLD], "token", "rollout", "mean")

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.by("rollout", "group")
        rank = groups.rank(self.likelihood(batch)).clamp(min=0)  # −1 for a rollout that does not count
        discount = -reward * self.beta * rank / groups.count().clamp(min=1)
        return {"rollout.reward": reward + discount, "rollout.reward.rank": discount}
