"""Statistics of cells as pure functions of vectors: `index` is the cell of each element, `cells` how many there are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["extreme", "first", "lengths", "occurrence", "quantile", "sort", "total"]


def lengths(index: Tensor, cells: int, ordered: bool) -> Tensor:
    """[cell] how many elements it has; `ordered`: cells are contiguous and in order."""
    if cells == 1:
        return index.new_full((1,), len(index))
    if ordered:  # to find the borders is faster than to count the elements
        return torch.searchsorted(index, torch.arange(cells + 1, device=index.device)).diff()
    return torch.bincount(index, minlength=cells)


def total(x: Tensor, index: Tensor, cells: int) -> Tensor:
    """[cell] the sum of x."""
    if cells == 1:
        return x.sum(0, keepdim=True)
    return x.new_zeros((cells, *x.shape[1:])).index_add(0, index, x)


def extreme(x: Tensor, index: Tensor, cells: int, how: str, fill: float | int) -> Tensor:
    """[cell] the largest (`amax`) or smallest (`amin`) value of x; `fill` in an empty one."""
    if cells == 1 and len(x):
        return x.amax(0, keepdim=True) if how == "amax" else x.amin(0, keepdim=True)
    return x.new_full((cells,), fill).scatter_reduce(0, index, x, how)


def first(index: Tensor, cells: int, enters: Tensor | None) -> Tensor:
    """[cell] its first element that enters; the number of elements where there is none."""
    n = len(index)
    place = torch.arange(n, device=index.device)
    return extreme(place if enters is None else place.where(enters, n), index, cells, "amin", n)


def occurrence(index: Tensor, cells: int) -> Tensor:
    """[element] its place among the elements of its cell."""
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
    if bool(same.any()):  # those who tie take their places among themselves
        no = same.new_zeros(1)
        places = (torch.cat([no, same]) | torch.cat([same, no])).nonzero().reshape(-1)
        tied = element[places]
        for key in reversed(ties()):
            tied = tied[torch.argsort(key[tied], stable=True)]
        element = element.index_copy(0, places, _sorted(tied, x, index, cells))
    _, start = _runs(cell, cells)
    return element, cell, torch.arange(len(element), device=x.device) - start[cell]


def quantile(x: Tensor, q: float, index: Tensor, cells: int, enters: Tensor | None) -> Tensor:
    """[cell] the value below which the share `q` of those who enter lies, interpolated; NaN where nobody does."""
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
    if value.dtype == torch.float32 and cells < 1 << 31:  # whole numbers are sorted in half of the time, and once
        value = _whole(value) if cells == 1 else index[element] << 32 | _whole(value)
        return element[torch.argsort(value, stable=True)]
    element = element[torch.argsort(value, stable=True)]
    return element if cells == 1 else element[torch.argsort(index[element], stable=True)]


def _whole(x: Tensor) -> Tensor:
    """Whole numbers from 0 to 2³² − 1 in the order of float32 numbers: their bits, those of negative ones reversed."""
    bits = (x + 0.0).view(torch.int32).long()  # −0 becomes 0
    return torch.where(bits < 0, -bits - 1, bits + (1 << 31)).where(~x.isnan(), (1 << 32) - 1)


def _runs(index: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """[cell] how many elements it has, and where the first of them stands when they are sorted by cell."""
    sizes = torch.bincount(index, minlength=cells)
    return sizes, sizes.cumsum(0) - sizes
