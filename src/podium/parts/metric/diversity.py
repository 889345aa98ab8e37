"""Diversity of the answers to one task."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Metric

__all__ = ["Diversity"]


class Diversity(Metric):
    """Reports 1 − the mean Jaccard similarity |A ∩ B| / |A ∪ B| of the token sets A, B of two rollouts of a task.

    0 if all rollouts use the same tokens, in whatever order; 1 if no two share a token. Two empty answers are equal.
    Averaged over the tasks with at least two rollouts; NaN without any.
    """

    reference = "SCOPE: Step-wise Correction for On-Policy Exploration"

    needs = ("token.id",)
    provides = ("batch.diversity",)

    def shared(self, batch: Batch) -> Tensor:
        """[rollout, place] The number of distinct tokens it shares with the rollout at this place of its group."""
        rows, ids = len(batch), batch["token.id"].long()
        place = _places(batch)
        rollout, group = (batch.partition("token", level).index for level in ("rollout", "group"))
        word = group * (ids.max() + 1 if len(ids) else 1) + ids  # no word belongs to two groups
        word, rollout = (x[batch.action] for x in (word, rollout))
        uses = (word * rows + rollout).unique()  # each (word, rollout) once, sorted by word
        rollout = uses % rows
        count = torch.unique_consecutive(uses // rows, return_counts=True)[1]
        # Every rollout that uses a word is paired with all that use it, itself included.
        times = count.repeat_interleave(count)
        one, first = rollout.repeat_interleave(times), (count.cumsum(0) - count).repeat_interleave(count)
        step = torch.arange(len(one), device=batch.device) - (times.cumsum(0) - times).repeat_interleave(times)
        other = rollout[first.repeat_interleave(times) + step]
        wide = int(place.max()) + 1
        return torch.bincount(one * wide + place[other], minlength=rows * wide).reshape(rows, wide)

    def overlap(self, batch: Batch) -> Tensor:
        """[rollout] The sum of |A ∩ B| / |A ∪ B| over the other rollouts of its group that count."""
        groups, both = batch.partition("rollout", "group"), self.shared(batch)
        place, enters = _places(batch), batch.counted("rollout")
        size = both.gather(1, place[:, None])
        sizes = size.new_full((groups.cells, both.shape[1]), -1)  # [group, place]; −1: nobody counts there
        sizes[groups.index, place] = size[:, 0] if enters is None else size[:, 0].where(enters, -1)
        other = groups.spread(sizes)
        either = size + other - both
        alike = (both.to(batch.dtype) / either.clamp(min=1)).where(either > 0, 1)
        itself = torch.arange(both.shape[1], device=batch.device) == place[:, None]
        return alike.where((other >= 0) & ~itself, 0).sum(1)

    def __call__(self, batch: Batch) -> Columns:
        groups = batch.by("rollout", "group").agg
        n = groups.count()
        mean = groups.sum(self.overlap(batch)) / (n * (n - 1)).clamp(min=1)
        several = (n > 1).to(mean.dtype)
        diversity = ((1 - mean) * several).sum() / several.sum()  # 0 / 0 is NaN
        return {"batch.diversity": diversity.to(batch.dtype).reshape(1)}


def _places(batch: Batch) -> Tensor:
    """[rollout] 0, 1, 2, … within its group."""
    groups = batch.partition("rollout", "group")
    return groups.rank(torch.zeros(len(batch), device=batch.device))
