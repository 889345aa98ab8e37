"""Rewards in which full success stands out from partial credit."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["MagnifySuccess"]


class MagnifySuccess(Reward):
    """Success magnification: R ← share · R, plus `bonus` where R reaches `full`.

    With share = 1 and bonus = 0 the reward stays as it is. Where rewards are all or nothing, it only changes their
    scale.
    """

    reference = "SeeUPO, https://github.com/modelscope/AgentEvolver"
    bonus: Number = 1.0  # ≥ 0
    share: Number = 0.5  # of the reward, ≥ 0
    full: Number = 1.0  # the least reward of a full success

    needs = ("rollout.reward",)
    provides = ("rollout.reward", "rollout.reward.success")

    def __post_init__(self) -> None:
        within(self, "bonus", 0)
        within(self, "share", 0)

    def __call__(self, batch: Batch) -> Columns:
        reward = batch["rollout.reward"]
        bonus = self.bonus * (reward >= self.full).to(batch.dtype)
        return {"rollout.reward": self.share * reward + bonus, "rollout.reward.success": bonus}
