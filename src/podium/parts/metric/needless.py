"""Searches that were not needed, and those that were left out."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Metric

__all__ = ["NeedlessSearches"]


class NeedlessSearches(Metric):
    """Reports, per rollout, the searches beyond the number of facts that must be looked up (`batch.needless`), and how
    many of those were not searched for (`batch.unsearched`)."""

    needs = ("rollout.searches", "rollout.evidence")
    provides = ("batch.needless", "batch.unsearched")

    def __call__(self, batch: Batch) -> Columns:
        needed = torch.tensor([len(facts) for facts in batch["rollout.evidence"]], dtype=batch.dtype)
        beyond = batch["rollout.searches"].to(batch.dtype) - needed.to(batch.device)
        rollouts = batch.by("rollout").agg
        return {
            "batch.needless": rollouts.mean(beyond.clamp(min=0)),
            "batch.unsearched": rollouts.mean((-beyond).clamp(min=0)),
        }
