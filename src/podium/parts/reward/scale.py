"""Rewards on another scale."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Columns, Reward

__all__ = ["Signed"]


class Signed(Reward):
    """2 (r − low) / (high − low) − 1: rewards in [low, high] as rewards in [−1, 1]."""

    low: float = 0.0
    high: float = 1.0

    needs = ("rollout.reward",)
    provides = ("rollout.reward",)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise PodiumError(f"Signed.low = {self.low} must lie below its high = {self.high}.")

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.reward": 2 * (batch["rollout.reward"] - self.low) / (self.high - self.low) - 1}
