"""Overthinking metrics from the step potential."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Metric
from podium.core.schedule import Number
from podium.parts.advantage.potential import PAPER

__all__ = ["PotentialWatch"]


class PotentialWatch(Metric):
    """Reports overthinking: the tokens written after the task was solved, and solved tasks that still ended wrong."""

    reference = PAPER
    solved: Number = 0.9  # a step with a larger potential Φ has solved the task

    needs = ("segment.potential", "rollout.correct")
    provides = ("rollout.checking_tokens", "rollout.right_to_wrong")

    def __call__(self, batch: Batch) -> Columns:
        solved = (batch["segment.potential"] > self.solved).to(batch.dtype)
        after = batch.scan(solved, "segment", "rollout", reverse=False) - solved > 0
        checking = batch.action & batch.spread(after, "segment", "token")
        ever = batch.reduce(solved, "segment", "rollout", "any")
        return {
            "rollout.checking_tokens": batch.reduce(checking.to(batch.dtype), "token", "rollout", "sum"),
            "rollout.right_to_wrong": (ever & ~batch["rollout.correct"]).to(batch.dtype),
        }
