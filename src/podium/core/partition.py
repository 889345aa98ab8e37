"""A partition of the elements of a level into cells, and the statistics of the cells.

`p.mean(x)` has one value per element (pandas' *transform*); `p.agg.mean(x)` one value per cell. Every statistic takes
`where=` (which elements enter) and, where it makes sense, `weight=`. An element that does not enter still receives the
value of its cell. In a cell that no element enters, sum, mean, std and count are 0, quantiles NaN, the minimum +∞, the
maximum and logsumexp −∞.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from podium.core import cells as cellwise
from podium.core.cells import Cells
from podium.core.errors import PodiumError
from podium.core.keys import combine_keys, compact

if TYPE_CHECKING:
    from podium.core.batch import Batch

__all__ = ["Partition", "constant", "everyone"]


def constant(x: Tensor) -> bool:
    """Whether x is one value expanded to all elements, which costs neither memory nor time."""
    return x.stride() == (0,)


def everyone(where: Tensor | None) -> bool:
    """Whether all elements enter, as far as can be seen without reading a whole mask."""
    return where is None or (constant(where) and bool(where[:1].all()))


class Partition:
    """Elements in cells. Made by `batch.by(level, *keys)`; can be refined and is itself a level."""

    def __init__(
        self,
        index: Tensor,
        cells: int,
        *,
        where: Tensor | None = None,
        batch: Batch | None = None,
        level: str = "",
        of: str = "",
        ordered: bool = False,
        ties: Callable[[], tuple[Tensor, ...]] = tuple,
    ) -> None:
        self.index = index  # [element] the cell of each element
        self.cells = cells
        self.where = where  # [element] which enter by default; None: all
        self.batch = batch
        self.level = level  # of the elements
        self.of = of  # the level whose elements the cells are; empty where they are made by keys
        self.ordered = ordered  # cells are contiguous and in order
        self.ties = ties  # what breaks ties, the first key first; after them the order of the elements

    def __repr__(self) -> str:
        return f"Partition({self.level}: {len(self)} elements in {self.cells} cells)"

    def __len__(self) -> int:
        return self.index.numel()

    # -- structure -------------------------------------------------------------------------------------------------

    @property
    def agg(self) -> Cells:
        """Statistics with one value per cell."""
        return Cells(self)

    def spread(self, y: Tensor) -> Tensor:
        """Copy a value per cell to the cell's elements."""
        if len(y) != self.cells:
            raise PodiumError(f"{len(y)} values for the {self.cells} cells of {self!r}.")
        if self.cells == 1:
            return y.expand(len(self), *y.shape[1:])
        if self.ordered and y.requires_grad and torch.is_grad_enabled():
            copied: Tensor = _Spread.apply(y, self)  # type: ignore[no-untyped-call]
            return copied
        return y.index_select(0, self.index)

    def refine(self, key: str | Tensor) -> Partition:
        """The partition by this one's cells and `key` (a column, or codes) together."""
        index, cells = combine_keys([(self.index, self.cells), self._codes(key)], len(self), self.index.device)
        return Partition(index, cells, where=self.where, batch=self.batch, level=self.level, ties=self.ties)

    def by(self, *keys: str) -> Partition:
        """The cells of this partition as elements, partitioned by `keys` (each constant within a cell).

        A cell that no element enters does not enter either.
        """
        if self.batch is None:
            raise PodiumError("Only a partition made by batch.by(...) can be partitioned by name.")
        coded = self.batch.codes(self.of, *keys) if self.of else [self._code_of_cells(key) for key in keys]
        index, cells = combine_keys(coded, self.cells, self.index.device)
        entered = self.agg.count() > 0
        return Partition(
            index,
            cells,
            where=None if bool(entered.all()) else entered,
            batch=self.batch if self.of else None,
            level=self.of or f"cell of {self.level}s",
            ties=self._ties_of_cells,
        )

    def _codes(self, key: str | Tensor) -> tuple[Tensor, int]:
        if self.batch is not None:
            return self.batch.codes(self.level, key)[0]
        if isinstance(key, str):
            raise PodiumError(f"Only a partition made by batch.by(...) can be refined by the name {key!r}.")
        return compact(key)

    def _code_of_cells(self, key: str) -> tuple[Tensor, int]:
        codes, bound = self._codes(key)
        of_cells = codes.index_select(0, self._first(None))
        if not torch.equal(self.spread(of_cells), codes):
            raise PodiumError(f"{key!r} varies within a cell of {self!r}, so its cells cannot be partitioned by it.")
        return of_cells, bound

    def _ties_of_cells(self) -> tuple[Tensor, ...]:
        assert self.batch is not None
        if self.of:
            return self.batch.ties(self.of)
        return (Partition(self.index, self.cells).agg.min(self.batch.identity(self.level)),)

    def entered_by(self, batch: Batch, where: Tensor | None) -> Partition:
        """The same cells, entered by the elements of `batch` that count and are in `where`."""
        self.lengths()  # computed once for all such copies
        new = copy(self)
        new.batch, new.where, new.ties = batch, batch.counted(self.level), partial(batch.ties, self.level)
        new.where = new.enters(where)
        return new

    def enters(self, where: Tensor | None = None) -> Tensor | None:
        """[element] which enter a statistic: the default of this partition and `where` together; None: all."""
        if where is None:
            return self.where
        if where.dtype != torch.bool:
            raise PodiumError(f"where is {where.dtype}: it must be boolean, one value per {self.level or 'element'}.")
        self._check(where, "where")
        if everyone(where):
            return self.where
        return where if self.where is None else self.where & where

    def lengths(self) -> Tensor:
        """[cell] the number of its elements, whether they enter or not."""
        return self._lengths

    def members(self, cells: Tensor) -> Tensor:
        """The elements of these cells, cell after cell."""
        lengths = self._lengths.index_select(0, cells)
        before = lengths.cumsum(0) - lengths
        place = (self._starts.index_select(0, cells) - before).repeat_interleave(lengths)
        place = place + torch.arange(len(place), device=place.device)
        return place if self.ordered else self._arranged.index_select(0, place)

    @cached_property
    def _lengths(self) -> Tensor:
        return cellwise.lengths(self.index, self.cells, self.ordered)

    @cached_property
    def _starts(self) -> Tensor:
        """Where each cell begins among the elements arranged cell by cell."""
        return self._lengths.cumsum(0) - self._lengths

    @cached_property
    def _arranged(self) -> Tensor:
        return torch.argsort(self.index, stable=True)

    def _first(self, enters: Tensor | None) -> Tensor:
        """[cell] its first element that enters; the number of elements where there is none."""
        if enters is None and self.ordered:
            return self._starts.where(self._lengths > 0, len(self))
        return cellwise.first_of_cells(self.index, self.cells, enters)

    def _check(self, x: Tensor, name: str = "A column") -> None:
        if len(x) != len(self):
            raise PodiumError(f"{name} has {len(x)} values for the {len(self)} elements of {self!r}.")

    def total(self, x: Tensor) -> Tensor:
        """Plain sum per cell of all elements."""
        self._check(x)
        x = x.long() if x.dtype == torch.bool else x
        if self.ordered and self.cells > 1 and x.dim() == 1 and x.is_floating_point() and len(x):
            return torch.segment_reduce(x, "sum", lengths=self._lengths, unsafe=True)
        return cellwise.total_of_cells(x, self.index, self.cells)

    def sort(self, x: Tensor, where: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Elements that enter, sorted by (cell, value, ties): (element, cell, place within the cell)."""
        self._check(x)
        return cellwise.sort(x, self.index, self.cells, self.enters(where), self.ties)

    def real(self, x: Tensor) -> Tensor:
        """x as floating-point numbers."""
        if x.is_floating_point():
            return x
        return x.to(torch.get_default_dtype() if self.batch is None else self.batch.dtype)

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

    def entropy(self, key: str | Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        return self.spread(self.agg.entropy(key, where, weight))

    def centre(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """x − mean of its cell; exactly 0 in a cell whose values are all equal."""
        self._check(x)
        if len(x) == 0:
            return x
        # Shifting by one member first makes equal values cancel exactly instead of to rounding.
        x = self.real(x)
        enters = self.enters(where)
        if weight is not None:  # zero weights do not enter, so that they cannot be the origin
            enters = weight != 0 if enters is None else enters & (weight != 0)
        first = self._first(enters)
        origin = x.detach().index_select(0, first.clamp(max=len(x) - 1))
        shifted = x - self.spread(origin.where(first < len(x), 0))
        return shifted - self.mean(shifted, where, weight)

    def minus_leave_one_out(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """x − mean of the other members of its cell; x itself where there are none."""
        # With W the weight of the cell: W / (W − w) · (x − mean), which is exactly 0 where all values are equal.
        x = self.real(x)
        w = torch.ones_like(x) if weight is None else weight.to(x.dtype)
        enters = self.enters(where)
        w = w if enters is None else w.where(enters, 0)
        total = self.spread(self.total(w))
        others = total - w
        return torch.where(others > 0, self.centre(x, where, weight) * (total / others.where(others > 0, 1)), x)

    def leave_one_out(self, x: Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """Mean of the other members of the cell; 0 where there are none."""
        return self.real(x) - self.minus_leave_one_out(x, where, weight)

    def rank(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """0 for the smallest; ties by `index`; −1 for elements that do not enter."""
        element, _, place = self.sort(x, where)
        return torch.full_like(self.index, -1).index_copy(0, element, place)

    def argmax(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """True at the element with the largest value of each cell; ties by `index`."""
        best = x == self.max(x, where)
        return self.rank(torch.zeros_like(x), best if where is None else best & where) == 0

    def softmax(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """exp(x) / Σ exp(x) over the cell; 0 for elements that do not enter."""
        enters = self.enters(where)
        if enters is not None:  # exp(−∞) is 0, with gradient 0
            x = x.where(enters, -torch.inf)
        total = self.agg.logsumexp(x, where)
        return (x - self.spread(total.where(total > -torch.inf, 0))).exp()

    def frequency(self, key: str | Tensor, where: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """Share of the cell's members that have the same value of `key` (a column, or codes)."""
        w = self.real(torch.ones_like(self.index) if weight is None else weight)
        return self.refine(key).sum(w, where) / self.sum(w, where).clamp(min=torch.finfo(w.dtype).tiny)

    def standardize(
        self,
        x: Tensor,
        where: Tensor | None = None,
        weight: Tensor | None = None,
        unbiased: bool = True,
        epsilon: float = 1e-6,
    ) -> Tensor:
        """(x − mean) / (std + epsilon) of its cell."""
        deviation = self.centre(x, where, weight)
        return deviation / self.spread(self.agg.deviation_std(deviation, where, weight, unbiased) + epsilon)


class _Spread(torch.autograd.Function):
    """A value per cell, copied to the elements of cells that are contiguous.

    The gradient is the sum over each cell, which takes a third of the time of index_select's own gradient.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, partition: Partition) -> Tensor:
        ctx.partition = partition
        return y.index_select(0, partition.index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return ctx.partition.total(gradient), None
