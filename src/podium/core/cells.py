"""Statistics of a partition with one value per cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from podium.core import cellwise

if TYPE_CHECKING:
    from podium.core.partition import Partition

__all__ = ["Cells", "root"]


class Cells:
    """Statistics of a partition with one value per cell (`p.agg`)."""

    def __init__(self, partition: Partition) -> None:
        self.p = partition

    def _masked(self, x: Tensor, where: Tensor | None, fill: float | int | bool = 0) -> Tensor:
        enters = self.p.enters(where)
        if enters is None:
            return x
        return x.where(_beside(enters, x), fill)

    def _extreme(self, x: Tensor, where: Tensor | None, how: str) -> Tensor:
        self.p._check(x)
        x = x.long() if x.dtype == torch.bool else x
        if x.is_floating_point():
            fill: float | int = float("-inf" if how == "amax" else "inf")
        else:
            fill = torch.iinfo(x.dtype).min if how == "amax" else torch.iinfo(x.dtype).max
        return cellwise.extreme(self._masked(x, where, fill), self.p.index, self.p.cells, how, fill)

    def count(self, where: Tensor | None = None) -> Tensor:
        enters = self.p.enters(where)
        return self.p.lengths() if enters is None else self.p.total(enters)

    def sum(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        return self.p.total(self._masked(x if weight is None else x * weight, where))

    def size(self, where: Tensor | None, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
        """How many members count: their number, or the sum of their weights."""
        return self.count(where).to(dtype) if weight is None else self.sum(weight.to(dtype), where)

    def mean(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        x = self.p.real(x)
        total, size = self.sum(x, where, weight), self.size(where, weight, x.dtype)
        return total / _beside(size.where(size != 0, 1), total)

    def var(
        self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None, unbiased: bool = True
    ) -> Tensor:
        """Variance; 0 where it does not exist. Weights count as repeated rows."""
        return self.dispersion(self.p.centre(x, where, weight), where, weight, unbiased)

    def std(
        self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None, unbiased: bool = True
    ) -> Tensor:
        return root(self.var(x, where, weight, unbiased))

    def dispersion(self, deviation: Tensor, where: Tensor | None, weight: Tensor | None, unbiased: bool) -> Tensor:
        """The variance from the deviations from the mean."""
        size = self.size(where, weight, deviation.dtype) - (1 if unbiased else 0)
        return self.sum(deviation.square(), where, weight).where(size > 0, 0) / size.where(size > 0, 1)

    def min(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self._extreme(x, where, "amin")

    def max(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self._extreme(x, where, "amax")

    def any(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.p.total(self._masked(x.bool(), where)) > 0

    def all(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.p.total(self._masked(~x.bool(), where)) == 0

    def quantile(self, x: Tensor, q: float, where: Tensor | None = None) -> Tensor:
        """Linear interpolation between order statistics."""
        self.p._check(x)
        return cellwise.quantile(self.p.real(x), q, self.p.index, self.p.cells, self.p.enters(where))

    def median(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.quantile(x, 0.5, where)

    def lower_median(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """The middle member, the lower one of two; NaN in a cell that nobody enters."""
        place = (self.count(where) - 1).clamp(min=0) // 2
        chosen = self.p.rank(x, where) == self.p.spread(place)
        return self.sum(self.p.real(x), chosen).where(self.count(where) > 0, float("nan"))

    def mad(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """Median absolute deviation from the median."""
        return self.quantile((x - self.p.median(x, where)).abs(), 0.5, where)

    def logsumexp(self, x: Tensor, where: Tensor | None = None, anchor: float | None = None) -> Tensor:
        """log Σ exp(x), with exp(anchor) added to each cell's sum if given."""
        top = self.max(x.detach(), where)
        if anchor is not None:
            top = top.clamp(min=anchor)
        top = top.where(top.isfinite(), 0)
        total = self.p.total(self._masked(x - self.p.spread(top), where, float("-inf")).exp())
        if anchor is not None:
            total = total + (anchor - top).exp()
        return total.where(total > 0, 1).log().where(total > 0, float("-inf")) + top

    def entropy(self, key: str | Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """−Σ f ln f over the frequencies of the values of `key` in each cell."""
        share = self.p.frequency(key, where, weight)
        return -self.mean(share.where(share > 0, 1).log(), where, weight)

    def first(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """The value of the cell's first element that enters; 0 where there is none."""
        self.p._check(x)
        first = self.p._first(self.p.enters(where))
        if len(x) == 0:
            return x.new_zeros((self.p.cells, *x.shape[1:]))
        return x.index_select(0, first.clamp(max=len(x) - 1)).where(_beside(first < len(x), x), 0)


def root(var: Tensor) -> Tensor:
    """The standard deviation from the variance."""
    # The root of an exact 0 has no derivative: constant cells get 0 with gradient 0.
    return var.where(var > 0, 1).sqrt().where(var > 0, 0)


def _beside(v: Tensor, x: Tensor) -> Tensor:
    """A value per row in the shape that meets the rows of x."""
    return v.reshape(-1, *[1] * (x.dim() - 1))
