"""Whether right answers go with the right evidence."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Metric
from podium.parts.annotate.overlap import EvidenceOverlap

__all__ = ["EvidenceCoverage"]


class EvidenceCoverage(Metric):
    """`batch.coverage`: the share of the evidence that was picked, the mean over rollouts.

    `batch.coverage_information`: the mutual information, in nats, of whether all evidence was picked and whether the
    answer is right; 0 where right answers say nothing about the evidence.
    """

    reference = "HART, https://arxiv.org/abs/2602.23615"

    needs = (*EvidenceOverlap.needs, "rollout.correct")
    provides = ("batch.coverage", "batch.coverage_information")

    def __call__(self, batch: Batch) -> Columns:
        covered: Tensor = EvidenceOverlap()(batch)["rollout.covered"]
        rollouts = batch.by("rollout").agg
        whole, right = covered == 1, batch["rollout.correct"] > 0
        information = torch.zeros(1, dtype=batch.dtype, device=batch.device)
        for seen in (whole, ~whole):
            for outcome in (right, ~right):
                both, first, second = (rollouts.mean(x.to(batch.dtype)) for x in (seen & outcome, seen, outcome))
                information += torch.where(both > 0, both * (both / (first * second)).log(), 0)
        return {"batch.coverage": rollouts.mean(covered), "batch.coverage_information": information.clamp(min=0)}
