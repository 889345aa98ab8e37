"""Statistics of a partition with one value per cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.core.partition import Partition

__all__ = [
    "Cells",
    "overflow_safe",
    "extreme",
    "first_of_cells",
    "lengths",
    "occurrence",
    "quantile",
    "root",
    "sort",
    "total_of_cells",
]

AGREEMENT = 1e-4  # how close float32 must come to float64 to be trusted, relative to the value
NOT_TINY = 1e-9  # a standard deviation of float32 numbers to which squares below float32's smallest do not matter


class Cells:
    """Statistics of a partition with one value per cell (`p.agg`)."""

    def __init__(self, partition: Partition) -> None:
        self.p = partition

    def _masked(self, x: Tensor, where: Tensor | None, fill: float | int | bool = 0) -> Tensor:
        enters = self.p.enters(where)
        if enters is None:
            return x
        return x.where(_broadcast(enters, x), fill)

    def _extreme(self, x: Tensor, where: Tensor | None, how: str) -> Tensor:
        self.p._check(x)
        x = x.long() if x.dtype == torch.bool else x
        if x.is_floating_point():
            fill: float | int = float("-inf" if how == "amax" else "inf")
        else:
            fill = torch.iinfo(x.dtype).min if how == "amax" else torch.iinfo(x.dtype).max
        return extreme(self._masked(x, where, fill), self.p.index, self.p.cells, how, fill)

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
        # Rewards stand at turns and rollouts, and are summed in float64; the long columns of tokens stay as they are.
        wide = x if self.p.level == "token" else x.double()
        total, size = self.sum(wide, where, weight), self.size(where, weight, wide.dtype)
        return (total / _broadcast(size.where(size != 0, 1), total)).to(x.dtype)

    def var(
        self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None, unbiased: bool = True
    ) -> Tensor:
        """Variance; 0 where it does not exist. Weights count as repeated rows.

        That of float32 values beyond 1e19 exceeds float32: give x in float64, or use `std`.
        """
        return self.dispersion(self.p.centre(x, where, weight), where, weight, unbiased)

    def std(
        self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None, unbiased: bool = True
    ) -> Tensor:
        return self.deviation_std(self.p.centre(x, where, weight), where, weight, unbiased)

    def deviation_std(self, deviation: Tensor, where: Tensor | None, weight: Tensor | None, unbiased: bool) -> Tensor:
        """The standard deviation from the deviations from the mean, of any size that their type can hold."""

        def std(d: Tensor) -> Tensor:
            return root(self.dispersion(d, where, weight, unbiased))

        if self.p.cells == 1 and weight is None and deviation.dtype == torch.float32:
            # A single cell is summed pairwise, hence precisely. If the result is finite, no square has overflowed; if
            # it is not tiny, those that were lost do not count: the column need not be copied to float64.
            single = std(deviation)
            if bool(((single > NOT_TINY) & single.isfinite()).all()):
                return single
        return overflow_safe(std, deviation)

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
        return quantile(self.p.real(x), q, self.p.index, self.p.cells, self.p.enters(where))

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
        return x.index_select(0, first.clamp(max=len(x) - 1)).where(_broadcast(first < len(x), x), 0)


def overflow_safe(statistic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A statistic that squares x, correct for all values that the type of x can hold.

    In float32, squares of values beyond about 1e19 are infinite, and those of values below 1e-19 are 0. So it is
    also computed in float64, which is used where the two differ by more than rounding. Elsewhere the float32 result
    stays, so that recorded runs continue to the bit.
    """
    single = statistic(x)
    if x.dtype == torch.float64:
        return single
    double = statistic(x.double()).to(x.dtype)
    return torch.where((single - double).abs() <= AGREEMENT * double.abs(), single, double)


def root(var: Tensor) -> Tensor:
    """The standard deviation from the variance."""
    # The root of an exact 0 has no derivative: constant cells get 0 with gradient 0.
    return var.where(var > 0, 1).sqrt().where(var > 0, 0)


def _broadcast(v: Tensor, x: Tensor) -> Tensor:
    """A value per row, shaped to broadcast over the rows of x."""
    return v.reshape(-1, *[1] * (x.dim() - 1))


def lengths(index: Tensor, cells: int, ordered: bool) -> Tensor:
    """[cell] how many elements it has; `ordered`: cells are contiguous and in order."""
    if cells == 1:
        return index.new_full((1,), len(index))
    if ordered:  # finding the boundaries is faster than counting the elements
        return torch.searchsorted(index, torch.arange(cells + 1, device=index.device)).diff()
    return torch.bincount(index, minlength=cells)


def total_of_cells(x: Tensor, index: Tensor, cells: int) -> Tensor:
    """[cell] the sum of x."""
    if cells == 1:
        return x.sum(0, keepdim=True)
    return x.new_zeros((cells, *x.shape[1:])).index_add(0, index, x)


def extreme(x: Tensor, index: Tensor, cells: int, how: str, fill: float | int) -> Tensor:
    """[cell] the largest (`amax`) or smallest (`amin`) value of x; `fill` in an empty one."""
    if cells == 1 and len(x):
        return x.amax(0, keepdim=True) if how == "amax" else x.amin(0, keepdim=True)
    return x.new_full((cells,), fill).scatter_reduce(0, index, x, how)


def first_of_cells(index: Tensor, cells: int, enters: Tensor | None) -> Tensor:
    """[cell] its first element that enters; the number of elements where there is none."""
    n = len(index)
    place = torch.arange(n, device=index.device)
    return extreme(place if enters is None else place.where(enters, n), index, cells, "amin", n)


def occurrence(index: Tensor, cells: int) -> Tensor:
    """[element] its place within its cell: 0, 1, 2, …"""
    arranged = torch.argsort(index, stable=True)
    _, start = _runs(index, cells)
    place = torch.arange(len(index), device=index.device) - start[index[arranged]]
    return torch.empty_like(place).index_copy(0, arranged, place)


def sort(
    x: Tensor, index: Tensor, cells: int, enters: Tensor | None, ties: Callable[[], tuple[Tensor, ...]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Elements that enter, sorted by (cell, value, ties): (element, cell, place within the cell)."""
    element = _sorted(_entered(x, enters), x, index, cells)
    value, cell = x[element], index[element]
    same = ((value[1:] == value[:-1]) | (value[1:].isnan() & value[:-1].isnan())) & (cell[1:] == cell[:-1])
    if bool(same.any()):  # elements that tie are ordered among themselves
        no = same.new_zeros(1)
        places = (torch.cat([no, same]) | torch.cat([same, no])).nonzero().reshape(-1)
        tied = element[places]
        for key in reversed(ties()):
            tied = tied[torch.argsort(key[tied], stable=True)]
        element = element.index_copy(0, places, _sorted(tied, x, index, cells))
    _, start = _runs(cell, cells)
    return element, cell, torch.arange(len(element), device=x.device) - start[cell]


def quantile(x: Tensor, q: float, index: Tensor, cells: int, enters: Tensor | None) -> Tensor:
    """[cell] the `q` quantile of the elements that enter, interpolated; NaN where none does."""
    if not 0 <= q <= 1:
        raise PodiumError(f"The quantile {q} is out of range [0, 1].")
    # Equal values are interchangeable here, so no tie needs breaking.
    element = _sorted(_entered(x, enters), x, index, cells)
    if len(element) == 0:
        return x.new_full((cells,), float("nan"))
    sizes, start = _runs(index[element], cells)
    last = (sizes - 1).clamp(min=0)
    place = q * last.to(x.dtype)
    low = place.floor().long()
    ordered, end = x[element], len(element) - 1
    a = ordered[(start + low).clamp(max=end)]
    b = ordered[(start + torch.minimum(low + 1, last)).clamp(max=end)]
    return (a + (b - a) * (place - low)).where(sizes > 0, float("nan"))


def _entered(x: Tensor, enters: Tensor | None) -> Tensor:
    element = torch.arange(len(x), device=x.device)
    return element if enters is None else element[enters]


def _sorted(element: Tensor, x: Tensor, index: Tensor, cells: int) -> Tensor:
    """By (cell, value); equal ones stay in their order."""
    value = x[element].detach()
    if value.dtype == torch.float32 and cells < 1 << 31:  # integers sort twice as fast, and in one pass
        integers = _ordered_integers(value)
        value = integers if cells == 1 else index[element] << 32 | integers
        return element[torch.argsort(value, stable=True)]
    element = element[torch.argsort(value, stable=True)]
    return element if cells == 1 else element[torch.argsort(index[element], stable=True)]


def _ordered_integers(x: Tensor) -> Tensor:
    """Integers from 0 to 2³² − 1 in the order of float32 numbers: their bits, those of negative ones reversed."""
    bits = (x + 0.0).view(torch.int32).long()  # −0 becomes 0
    return torch.where(bits < 0, -bits - 1, bits + (1 << 31)).where(~x.isnan(), (1 << 32) - 1)


def _runs(index: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """[cell] how many elements it has, and where the first of them stands when they are sorted by cell."""
    sizes = torch.bincount(index, minlength=cells)
    return sizes, sizes.cumsum(0) - sizes
