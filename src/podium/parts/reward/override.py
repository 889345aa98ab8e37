"""Rewards replaced by a constant, or mapped to another range."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["OverrideReward", "SignedReward"]


class SignedReward(Reward):
    """Maps rewards linearly from [low, high] to [−1, 1]: r ← 2 (r − low) / (high − low) − 1."""

    low: float = 0.0
    high: float = 1.0  # > low

    needs = ("rollout.reward",)
    provides = ("rollout.reward",)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise PodiumError(f"SignedReward.low = {self.low} must lie below its high = {self.high}.")

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.reward": 2 * (batch["rollout.reward"] - self.low) / (self.high - self.low) - 1}


class OverrideReward(Reward):
    """Replaces the reward by `value` for the rollouts that a boolean column marks, such as degenerate answers."""

    where: str = "rollout.degenerate"  # a boolean column of rollouts
    value: Number = -1.0

    provides = ("rollout.reward", "rollout.reward.override")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.where)

    def __call__(self, batch: Batch) -> Columns:
        reward = batch["rollout.reward"]
        changed = reward.masked_fill(batch[self.where].bool(), float(self.value))
        return {"rollout.reward": changed, "rollout.reward.override": changed - reward}
