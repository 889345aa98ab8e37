"""A reward for answers that rest on pure evidence."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["EvidencePurity"]


class EvidencePurity(Reward):
    """r = outcome + action · [something was picked] + relevance · IoU, with the intersection over union of what was
    picked and the evidence.

    The outcome of a right answer is 1 if IoU ≥ threshold, else `impure`; that of a wrong one is `wrong`. With action =
    relevance = threshold = 0 it is 1 or `wrong`. While action + relevance < impure − wrong, no wrong answer earns more
    than a right one.
    """

    reference = "EARL: Select Less, Reason More"
    threshold: Number = 0.5  # the least IoU of pure evidence, in [0, 1]
    impure: Number = 0.5  # of a right answer with less
    wrong: Number = -1.0
    action: Number = 0.2
    relevance: Number = 0.1

    needs = ("rollout.correct", "rollout.overlap", "rollout.looked")
    provides = ("rollout.reward", "rollout.reward.outcome", "rollout.reward.action", "rollout.reward.relevance")

    def __post_init__(self) -> None:
        within(self, "threshold", 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        overlap, looked = batch["rollout.overlap"].to(batch.dtype), batch["rollout.looked"].to(batch.dtype)
        right = torch.where(overlap >= self.threshold, 1.0, float(self.impure))
        outcome = torch.where(batch["rollout.correct"] > 0, right, float(self.wrong)).to(batch.dtype)
        action, relevance = self.action * looked, self.relevance * overlap
        return {
            "rollout.reward": outcome + action + relevance,
            "rollout.reward.outcome": outcome,
            "rollout.reward.action": action,
            "rollout.reward.relevance": relevance,
        }
