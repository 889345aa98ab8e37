"""Rewards that depend on length."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["Overlong"]


class Overlong(Reward):
    """reward + min(−(length − (max_length − buffer)) / buffer · factor, 0): a soft penalty near the limit."""

    reference = "DAPO, https://arxiv.org/abs/2503.14476"
    max_length: int = 20480  # tokens
    buffer: int = 4096  # tokens before the limit in which the penalty grows
    factor: Number = 1.0

    needs = ("rollout.reward", "rollout.length")
    provides = ("rollout.reward", "rollout.reward.overlong")

    def __post_init__(self) -> None:
        within(self, "buffer", 1)
        within(self, "factor", 0)
        if self.max_length < self.buffer:
            raise PodiumError(f"Overlong.max_length = {self.max_length} is smaller than its buffer {self.buffer}.")

    def __call__(self, batch: Batch) -> Columns:
        beyond = batch["rollout.length"] - (self.max_length - self.buffer)
        penalty = (-beyond / self.buffer * self.factor).clamp(max=0.0)
        return {"rollout.reward": batch["rollout.reward"] + penalty, "rollout.reward.overlong": penalty}
