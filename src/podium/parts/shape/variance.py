"""Max-variance down-sampling of rollouts."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number

__all__ = ["KeepSpread", "largest_variance"]


def largest_variance(sorted_values: Tensor, sizes: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """[cell] k and the variance of the subset of `keep` values with the largest variance: k smallest, keep − k largest.

    Rows of `sorted_values` [cell, n] are ascending and padded at the end. Of equal variances the smallest k is taken;
    if all values are equal, k = keep.
    """
    count = int(keep.max())
    k = torch.arange(count + 1, device=keep.device)  # [candidate]
    valid = k <= keep[:, None]
    upper = (sizes[:, None] - (keep[:, None] - k)).clamp(min=0)

    def total(x: Tensor) -> Tensor:
        """[cell, candidate] the sum of x over a candidate's values."""
        below = torch.nn.functional.pad(x.cumsum(1), (1, 0))
        first = below.gather(1, k.expand(len(x), -1).clamp(max=x.shape[1]))
        return first + below.gather(1, sizes[:, None]) - below.gather(1, upper.clamp(max=x.shape[1]))

    inside = torch.arange(sorted_values.shape[1], device=keep.device) < sizes[:, None]
    middle = (sorted_values - sorted_values[:, :1]).where(inside, 0).double()
    n = keep[:, None].clamp(min=1)
    variance = (total(middle.square()) / n - (total(middle) / n).square()).clamp(min=0).where(valid, -1)
    best, widest = variance.amax(1), middle.amax(1)
    rounding = middle.shape[1] * torch.finfo(middle.dtype).eps * widest.square()  # error of prefix sums
    from_bottom = (variance >= (best - rounding)[:, None]).to(torch.int8).argmax(1)
    return torch.where(widest > 0, from_bottom, keep), best.clamp(min=0).to(sorted_values.dtype)


class KeepSpread(Shape):
    """Max-variance down-sampling: keep the `share` of the trained rollouts whose advantages have the largest variance.

    They are the k smallest and the n − k largest advantages for the best k. Advantages are not normalised again.
    """

    reference = "D3S: A Dynamic Dual-Level Down-Sampling Framework"
    share: Number = 0.25  # of the rollouts, rounded up; in (0, 1]
    key: tuple[str, ...] = ()  # (): over the whole batch; ("group",): within each group

    provides = ("rollout.keep.spread",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.advantage", *(k for k in self.key if "." in k))

    def subset(self, batch: Batch, keep: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """[rollout] which are kept; [cell] k, and the variance. `keep` [cell] overrides the share."""
        a, trained = batch["rollout.advantage"], batch.trained("rollout")
        cells = batch.by("rollout", *self.key)
        cells.where = trained
        sizes = cells.agg.count()
        if keep is None:
            keep = (sizes.double() * float(self.share)).ceil().long()
        keep = keep.minimum(sizes)
        rank = cells.rank(a)
        table = a.new_zeros(cells.cells, max(int(sizes.max()), 1))
        table[cells.index[trained], rank[trained]] = a[trained]
        from_bottom, variance = largest_variance(table, sizes, keep)
        lower = rank < cells.spread(from_bottom)
        upper = rank >= cells.spread(sizes - (keep - from_bottom))
        return trained & (lower | upper), from_bottom, variance

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.spread": self.subset(batch)[0]}
