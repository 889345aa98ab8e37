"""Operations along the ordered elements of a parent, without a Python loop over elements.

Each takes a partition whose cells are contiguous and in order (`batch.partition(level, parent)`).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from podium.core.errors import PodiumError
from podium.core.partition import Partition

__all__ = ["first", "following", "last", "position", "scan", "shift"]

BLOCK = 32  # elements that `_recurrence` visits one by one, in all blocks at once


def position(p: Partition) -> Tensor:
    """0, 1, 2, … within each cell."""
    _check(p)
    return torch.arange(len(p), device=p.index.device) - p.spread(p._starts)


def scan(x: Tensor, p: Partition, decay: float | Tensor = 1.0, reverse: bool = True) -> Tensor:
    """The linear recurrence y_t = x_t + decay_t · y_{t+1} within each cell (y_{t−1} if not `reverse`)."""
    _check(p, x)
    if isinstance(decay, Tensor) and decay.dim():
        p._check(decay, "decay")
    if not isinstance(decay, Tensor) and decay == 1 and len(x) and bool((p._lengths == p._lengths[0]).all()):
        rows = x.reshape(p.cells, -1)  # cells of one length are the rows of a matrix
        return (rows.flip(1).cumsum(1).flip(1) if reverse else rows.cumsum(1)).reshape(-1)
    factor = torch.as_tensor(decay, dtype=x.dtype, device=x.device).expand(len(x))
    if reverse:
        return _recurrence(x, _stopped(factor, p.index))
    return _recurrence(x.flip(0), _stopped(factor.flip(0), p.index.flip(0))).flip(0)


def _stopped(factor: Tensor, index: Tensor) -> Tensor:
    """The factors with 0 at the end of each cell, so that the whole vector is one recurrence."""
    return torch.cat([factor[:-1].where(index[1:] == index[:-1], 0), factor.new_zeros(min(len(factor), 1))])


def _recurrence(x: Tensor, factor: Tensor) -> Tensor:
    """y_t = x_t + factor_t · y_{t+1}, in blocks: within all blocks at once, then over their first elements."""
    n = len(x)
    if n <= BLOCK:
        blocks, width = 1, n
    else:
        blocks, width = -(-n // BLOCK), BLOCK
    # [width, blocks]: row j holds the j-th elements of the blocks.
    xs = pad(x, (0, blocks * width - n)).view(blocks, width).t().contiguous()
    factors = pad(factor, (0, blocks * width - n)).view(blocks, width).t().contiguous()
    ys, reach = [xs.new_zeros(blocks)], [xs.new_ones(blocks)]
    for j in reversed(range(width)):
        ys.append(torch.addcmul(xs[j], factors[j], ys[-1]))
        reach.append(factors[j] * reach[-1])  # the weight of what follows the block
    if blocks == 1:
        return torch.stack(ys[:0:-1]).reshape(-1) if n else x
    heads = _recurrence(ys[-1], reach[-1])
    after = torch.cat([heads[1:], heads.new_zeros(1)])
    rows = [torch.addcmul(y, r, after) for y, r in zip(ys[:0:-1], reach[:0:-1], strict=True)]
    return torch.stack(rows).t().reshape(-1)[:n]


def shift(x: Tensor, p: Partition, by: int = 1, fill: float | int = 0) -> Tensor:
    """The value `by` elements earlier in the cell (later if negative), `fill` where there is none."""
    _check(p, x)
    if abs(by) >= len(x):
        return x if by == 0 else torch.full_like(x, fill)
    source = p.index.roll(by)
    source[slice(0, by) if by > 0 else slice(len(x) + by, None)] = -1  # what has wrapped around
    return x.roll(by, 0).where(source == p.index, fill)


def following(x: Tensor, p: Partition, where: Tensor, fill: float | Tensor = 0.0) -> Tensor:
    """The value at the next later element in `where` of the same cell; `fill` (a number, or one per cell) if none."""
    _check(p, x)
    p._check(where, "where")
    default = p.spread(fill) if isinstance(fill, Tensor) else fill
    n = len(x)
    if bool(where.all()):
        return shift(x, p, -1).where(~last(p), default)
    place = torch.arange(n, device=x.device)
    # nearest[t] is the first place >= t in `where`; the one after t itself is wanted.
    nearest = place.where(where, n).flip(0).cummin(0).values.flip(0)
    after = torch.cat([nearest[1:], nearest.new_full((1,), n)])
    safe = after.clamp(max=n - 1)
    inside = (after < n) & (p.index.index_select(0, safe) == p.index)
    return x.index_select(0, safe).where(inside, default)


def first(p: Partition, where: Tensor | None = None) -> Tensor:
    """True at the first element (of those in `where`) of each cell."""
    _check(p)
    return _at(p, p._first(p.enters(where)))


def last(p: Partition, where: Tensor | None = None) -> Tensor:
    """True at the last element (of those in `where`) of each cell."""
    _check(p)
    if p.enters(where) is None:
        return _at(p, (p._starts + p._lengths - 1).where(p._lengths > 0, -1))
    return _at(p, p.agg.max(torch.arange(len(p), device=p.index.device), where))


def _at(p: Partition, places: Tensor) -> Tensor:
    """True at these places; places outside the elements are ignored."""
    valid = places[(places >= 0) & (places < len(p))]
    return torch.zeros_like(p.index, dtype=torch.bool).index_fill(0, valid, True)


def _check(p: Partition, x: Tensor | None = None) -> None:
    if not p.ordered:
        raise PodiumError(f"The {p.level}s of a {p.of} have no order of their own: rank them by a column instead.")
    if x is not None:
        p._check(x)
