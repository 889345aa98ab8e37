"""A partition of the elements of a level into cells, and the statistics of the cells.

`p.mean(x)` has one value per element (pandas' *transform*); `p.agg.mean(x)` one value per cell. Every statistic takes
`where=` (who enters) and, where it makes sense, `weight=`. An element that does not enter still receives the value of
its cell. An empty cell has sum 0, mean 0, std 0 and count 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.core.batch import Batch

__all__ = ["Partition", "compact", "combine"]


def compact(codes: Tensor, bound: int | None = None) -> tuple[Tensor, int]:
    """Renumber non-negative `codes` to 0..cells-1 without holes, keeping their order."""
    if codes.numel() == 0:
        return codes, 0
    if bound is None or bound > 8 * codes.numel() + 1024:
        unique, inverse = torch.unique(codes, return_inverse=True)
        return inverse, unique.numel()
    used = torch.zeros(bound, dtype=torch.bool, device=codes.device)
    used[codes] = True
    if bool(used.all()):
        return codes, bound
    number = used.cumsum(0) - 1
    return number.index_select(0, codes), int(used.sum())


def combine(keys: list[tuple[Tensor, int]], size: int, device: torch.device) -> tuple[Tensor, int]:
    """The cells of several keys taken together; each key is (codes, bound)."""
    if not keys:
        return torch.zeros(size, dtype=torch.long, device=device), min(size, 1)
    codes, bound = keys[0]
    for other, other_bound in keys[1:]:
        codes, bound = compact(codes * max(other_bound, 1) + other, bound * max(other_bound, 1))
    return codes, bound


class Partition:
    """Elements in cells. Made by `batch.by(level, *keys)`; can be refined and is itself a level."""

    def __init__(
        self,
        index: Tensor,
        cells: int,
        *,
        where: Tensor | None = None,
        tie: Tensor | None = None,
        batch: Batch | None = None,
        level: str = "",
        ordered: bool = False,
    ) -> None:
        self.index = index  # [element] the cell of each element
        self.cells = cells
        self.where = where  # [element] who enters by default; None: all
        self.tie = tie  # [element] what breaks ties; None: the order of the elements
        self.batch = batch
        self.level = level
        self.ordered = ordered  # cells are contiguous and in order
        self._representative: Tensor | None = None
        self._lengths: Tensor | None = None

    def __repr__(self) -> str:
        return f"Partition({self.level}: {self.index.numel()} elements in {self.cells} cells)"

    # -- structure -------------------------------------------------------------------------------------------------

    @property
    def agg(self) -> Cells:
        """Statistics with one value per cell."""
        return Cells(self)

    def spread(self, y: Tensor) -> Tensor:
        """Copy a value per cell to the cell's elements."""
        return y.index_select(0, self.index)

    def refine(self, codes: Tensor) -> Partition:
        """The partition by this one's cells and `codes` together."""
        codes, bound = compact(codes)
        index, cells = combine([(self.index, self.cells), (codes, bound)], codes.numel(), codes.device)
        return Partition(index, cells, where=self.where, tie=self.tie, batch=self.batch, level=self.level)

    def by(self, *keys: str) -> Partition:
        """The cells of this partition as a level, partitioned by `keys` (each constant within a cell)."""
        if self.batch is None:
            raise PodiumError("Only a partition made by batch.by(...) can be partitioned by name.")
        first = self.representative()
        coded = [(codes.index_select(0, first), n) for codes, n in self.batch.codes(self.level, *keys)]
        index, cells = combine(coded, self.cells, self.index.device)
        return Partition(index, cells)

    def representative(self) -> Tensor:
        """One element of each cell: the first that enters, or the first of all where none enters."""
        if self._representative is None:
            n = self.index.numel()
            place = torch.arange(n, device=self.index.device)
            if self.where is not None:
                place = torch.where(self.where, place, place + n)
            first = place.new_full((self.cells,), 2 * n).scatter_reduce(0, self.index, place, "amin")
            self._representative = first % max(n, 1)
        return self._representative

    def enters(self, where: Tensor | None = None) -> Tensor | None:
        """Who enters a statistic: the default of this partition and `where` together."""
        if where is None:
            return self.where
        return where if self.where is None else self.where & where

    def lengths(self) -> Tensor:
        """The number of elements of each cell, whoever enters."""
        if self._lengths is None:
            self._lengths = torch.bincount(self.index, minlength=self.cells)
        return self._lengths

    def total(self, x: Tensor) -> Tensor:
        """Plain sum per cell of all elements."""
        if self.cells == 1:
            return x.sum(0, keepdim=True)
        if self.ordered and x.dim() == 1 and x.is_floating_point() and x.numel():
            return torch.segment_reduce(x, "sum", lengths=self.lengths(), unsafe=True)
        shape = (self.cells, *x.shape[1:])
        return x.new_zeros(shape).index_add(0, self.index, x)

    def sort(self, x: Tensor, where: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Elements that enter, sorted by (cell, value, tie): (element, cell, place within the cell)."""
        enters = self.enters(where)
        element = torch.arange(x.numel(), device=x.device)
        if enters is not None:
            element = element[enters]
        if self.tie is not None:
            element = element[torch.argsort(self.tie[element], stable=True)]
        element = element[torch.argsort(x[element], stable=True)]
        element = element[torch.argsort(self.index[element], stable=True)]
        cell = self.index[element]
        lengths = torch.bincount(cell, minlength=self.cells)
        start = lengths.cumsum(0) - lengths
        place = torch.arange(element.numel(), device=x.device) - start[cell]
        return element, cell, place

    # -- one value per element -------------------------------------------------------------------------------------

    def count(self, where: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.count(where))

    def sum(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.sum(x, where, weight))

    def mean(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.mean(x, where, weight))

    def std(
        self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None, unbiased: bool = True
    ) -> Tensor:
        return self.spread(self.agg.std(x, where, weight, unbiased))

    def min(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.min(x, where))

    def max(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.max(x, where))

    def median(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.quantile(x, 0.5, where))

    def quantile(self, x: Tensor, q: float, where: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.quantile(x, q, where))

    def mad(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.mad(x, where))

    def entropy(self, codes: Tensor, where: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.entropy(codes, where))

    def centre(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """x − mean of its cell; exactly 0 in a cell whose values are all equal."""
        # Shifting by one member first makes equal values cancel exactly instead of to rounding.
        shifted = x - self.spread(x.detach().index_select(0, self.representative()))
        return shifted - self.mean(shifted, where, weight)

    def leave_one_out(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """Mean of the other members of the cell; 0 where there are none."""
        enters = self.enters(where)
        w = torch.ones_like(x) if weight is None else weight.to(x.dtype)
        if enters is not None:
            w = torch.where(enters, w, torch.zeros_like(w))
        total, weight_sum = self.sum(x, where, weight), self.spread(self.total(w))
        others = weight_sum - w
        return torch.where(
            others > 0, (total - w * x) / others.where(others > 0, torch.ones_like(others)), torch.zeros_like(x)
        )

    def rank(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """0 for the smallest; ties by `index`; −1 for those who do not enter."""
        element, _, place = self.sort(x, where)
        return torch.full_like(self.index, -1).index_copy(0, element, place)

    def argmax(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """True at the first element with the largest value of each cell."""
        enters = self.enters(where)
        best = x == self.max(x, where)
        if enters is not None:
            best = best & enters
        # Among equals the one with the smallest tie key wins.
        return (self.rank(torch.zeros_like(x), best) == 0) & best

    def softmax(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """exp(x) over the cell's sum of it; 0 for those who do not enter."""
        enters = self.enters(where)
        value = (x - self.spread(self.agg.logsumexp(x, where))).exp()
        return value if enters is None else torch.where(enters, value, torch.zeros_like(value))

    def frequency(self, codes: Tensor, where: Tensor | None = None) -> Tensor:
        """Share of the cell's members that have the same code."""
        same = self.refine(codes)
        return same.count(where).to(torch.get_default_dtype()) / self.count(where).clamp(min=1)

    def standardize(
        self, x: Tensor, where: Tensor | None = None, unbiased: bool = True, epsilon: float = 1e-6
    ) -> Tensor:
        """(x − mean) / (std + epsilon) of its cell."""
        return self.centre(x, where) / (self.std(x, where, unbiased=unbiased) + epsilon)


class Cells:
    """Statistics of a partition with one value per cell (`p.agg`)."""

    def __init__(self, partition: Partition) -> None:
        self.p = partition

    def _masked(self, x: Tensor, where: Tensor | None, fill: float | int | bool = 0) -> Tensor:
        enters = self.p.enters(where)
        if enters is None:
            return x
        enters = enters.reshape(-1, *[1] * (x.dim() - 1))
        return torch.where(enters, x, torch.full((), fill, dtype=x.dtype, device=x.device))

    def _extreme(self, x: Tensor, where: Tensor | None, how: str, fill: float) -> Tensor:
        x = self._masked(x, where, fill)
        if self.p.cells == 1 and x.numel():
            return x.amax(0, keepdim=True) if how == "amax" else x.amin(0, keepdim=True)
        return x.new_full((self.p.cells,), fill).scatter_reduce(0, self.p.index, x, how)

    def count(self, where: Tensor | None = None) -> Tensor:
        enters = self.p.enters(where)
        if enters is None:
            return self.p.lengths()
        return self.p.total(enters.long())

    def sum(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        return self.p.total(self._masked(x if weight is None else x * weight, where))

    def mean(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        total = self.sum(x, where, weight)
        size = self.count(where).to(x.dtype) if weight is None else self.sum(weight.to(x.dtype), where)
        size = size.where(size != 0, torch.ones_like(size))
        return total / size.reshape(-1, *[1] * (total.dim() - 1))

    def var(
        self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None, unbiased: bool = True
    ) -> Tensor:
        """Variance; 0 where it does not exist. Weights count as repeated rows."""
        square = self.p.centre(x, where, weight).square()
        total = self.sum(square, where, weight)
        size = self.count(where).to(x.dtype) if weight is None else self.sum(weight.to(x.dtype), where)
        return total / (size - 1 if unbiased else size).clamp(min=torch.finfo(x.dtype).tiny).where(
            total > 0, torch.ones_like(size)
        )

    def std(
        self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None, unbiased: bool = True
    ) -> Tensor:
        var = self.var(x, where, weight, unbiased)
        # The root of an exact 0 has no derivative: constant cells get 0 with gradient 0.
        positive = var > 0
        return torch.where(positive, var.where(positive, torch.ones_like(var)).sqrt(), torch.zeros_like(var))

    def min(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self._extreme(x, where, "amin", float("inf"))

    def max(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self._extreme(x, where, "amax", float("-inf"))

    def any(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.p.total(self._masked(x.bool(), where).long()) > 0

    def all(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.p.total(self._masked(~x.bool(), where).long()) == 0

    def quantile(self, x: Tensor, q: float, where: Tensor | None = None) -> Tensor:
        """Linear interpolation between order statistics; NaN in an empty cell."""
        element, cell, _ = self.p.sort(x, where)
        lengths = torch.bincount(cell, minlength=self.p.cells)
        start = lengths.cumsum(0) - lengths
        place = q * (lengths - 1).clamp(min=0).to(x.dtype)
        low = place.floor().long()
        high = torch.minimum(low + 1, (lengths - 1).clamp(min=0))
        if element.numel() == 0:
            return x.new_full((self.p.cells,), float("nan"))
        ordered = x[element]
        last = ordered.numel() - 1
        a, b = ordered[(start + low).clamp(max=last)], ordered[(start + high).clamp(max=last)]
        value = a + (b - a) * (place - low.to(x.dtype))
        return value.where(lengths > 0, torch.full_like(value, float("nan")))

    def median(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        return self.quantile(x, 0.5, where)

    def mad(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """Median absolute deviation from the median."""
        return self.quantile((x - self.p.median(x, where)).abs(), 0.5, where)

    def logsumexp(self, x: Tensor, where: Tensor | None = None, anchor: float | None = None) -> Tensor:
        """log Σ exp(x), with exp(anchor) added to each cell's sum if given; −inf in an empty cell."""
        top = self.max(x.detach(), where)
        if anchor is not None:
            top = top.clamp(min=anchor)
        top = top.where(top.isfinite(), torch.zeros_like(top))
        total = self.sum((x - self.p.spread(top)).clamp(max=80.0).exp(), where)
        if anchor is not None:
            total = total + (anchor - top).exp()
        return total.log() + top

    def entropy(self, codes: Tensor, where: Tensor | None = None) -> Tensor:
        """−Σ f ln f over the codes' frequencies in each cell."""
        share = self.p.frequency(codes, where)
        return -self.mean(share.clamp(min=1e-30).log(), where)

    def first(self, x: Tensor) -> Tensor:
        """The value of the cell's first element that enters."""
        return x.index_select(0, self.p.representative())
