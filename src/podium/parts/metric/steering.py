"""How well a policy follows the direction that it is told."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Metric

__all__ = ["Steering"]


class Steering(Metric):
    """Reports `steering`, Spearman's rank correlation of the angle that a group was told and the mean of its second
    score, over the groups of a batch: 1 if more weight always brings more of it.

    0 where all angles or all means are equal.
    """

    reference = "DPA, https://arxiv.org/abs/2402.18571"

    needs = ("rollout.angle", "rollout.scores")
    provides = ("batch.steering",)

    def __call__(self, batch: Batch) -> Columns:
        groups = batch.by("rollout", "group").agg
        counted = groups.count() > 0
        angle, second = groups.mean(batch["rollout.angle"]), groups.mean(batch["rollout.scores"][:, -1])
        return {"batch.steering": spearman(angle[counted], second[counted]).reshape(1)}


def spearman(x: Tensor, y: Tensor) -> Tensor:
    """The correlation of ranks; ties have the mean of their ranks."""
    a, b = _ranks(x), _ranks(y)
    a, b = a - a.mean(), b - b.mean()
    spread = (a.square().sum() * b.square().sum()).sqrt()
    return ((a * b).sum() / spread.where(spread > 0, 1)).where(spread > 0, 0)


def _ranks(x: Tensor) -> Tensor:
    below, equal = (x[:, None] > x).sum(1), (x[:, None] == x).sum(1)
    return (below + (equal - 1) / 2).to(x.dtype)
