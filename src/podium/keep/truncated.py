"""Answers that were cut off."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Keep

__all__ = ["DropTruncated"]


class DropTruncated(Keep):
    """Leave rollouts that were cut off out of the loss; they still count in the statistics of their group."""

    reference = "DAPO, https://arxiv.org/abs/2503.14476"

    needs = ("rollout.truncated",)
    provides = ("rollout.keep.truncated",)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.truncated": ~batch["rollout.truncated"]}
