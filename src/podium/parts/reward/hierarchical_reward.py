"""A reward in two steps: first the answer, then its format."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward

__all__ = ["HierarchicalReward"]


class HierarchicalReward(Reward):
    """r = `right` if answer and format are right, `unformatted` if only the answer is, `wrong` otherwise.

    Where the run has no format, `formatted` is whether the answer has ended by itself.
    """

    reference = "SPARKLE, https://github.com/sparkle-reasoning/sparkle"
    right: float = 2.0
    unformatted: float = 1.0
    wrong: float = -1.0
    formatted: str = ""  # a column of rollouts, above 0 where the format is right; empty: not truncated

    provides = ("rollout.reward",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.correct", self.formatted or "rollout.truncated")

    def __call__(self, batch: Batch) -> Columns:
        correct = batch["rollout.correct"] > 0
        formatted = batch[self.formatted] > 0 if self.formatted else ~(batch["rollout.truncated"] > 0)
        earned = torch.where(formatted, self.right, self.unformatted).to(batch.dtype)
        return {"rollout.reward": torch.where(correct, earned, torch.full_like(earned, self.wrong))}
