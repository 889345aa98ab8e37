"""Ordered verbs: what runs along the elements of a parent, without a Python loop over elements.

Each takes a partition whose cells are contiguous and in order (`batch.partition(level, parent)`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.partition import Partition

__all__ = ["first", "following", "last", "position", "scan", "shift"]


def position(p: Partition) -> Tensor:
    """0, 1, 2, … within each cell."""
    lengths = p.lengths()
    start = lengths.cumsum(0) - lengths
    return torch.arange(p.index.numel(), device=p.index.device) - p.spread(start)


def scan(x: Tensor, p: Partition, decay: float | Tensor = 1.0, reverse: bool = True) -> Tensor:
    """The linear recurrence y_t = x_t + decay_t · y_{t+1} within each cell (y_{t−1} if not `reverse`).

    By doubling: after round k every y_t holds the sum over the next 2^k elements, so log₂(longest) rounds do.
    """
    n = x.numel()
    if n == 0:
        return x
    place = position(p)
    longest = int(p.lengths().max())
    if reverse:
        inside = place < p.spread(p.lengths()) - 1  # there is a next element
    else:
        inside = place > 0
    factor = torch.as_tensor(decay, dtype=x.dtype, device=x.device).expand(n)
    factor = torch.where(inside, factor, torch.zeros((), dtype=x.dtype, device=x.device))
    y, step = x, 1
    while step < longest:
        if reverse:
            y = torch.cat([torch.addcmul(y[:-step], factor[:-step], y[step:]), y[-step:]])
            factor = torch.cat([factor[:-step] * factor[step:], factor.new_zeros(step)])
        else:
            y = torch.cat([y[:step], torch.addcmul(y[step:], factor[step:], y[:-step])])
            factor = torch.cat([factor.new_zeros(step), factor[step:] * factor[:-step]])
        step *= 2
    return y


def shift(x: Tensor, p: Partition, by: int = 1, fill: float | int = 0) -> Tensor:
    """The value `by` elements earlier in the cell (later if negative), `fill` where there is none."""
    n = x.numel()
    source = torch.arange(n, device=x.device) - by
    place = position(p) - by
    inside = (place >= 0) & (place < p.spread(p.lengths()))
    moved = x.index_select(0, source.clamp(0, max(n - 1, 0)))
    return torch.where(inside, moved, torch.full((), fill, dtype=x.dtype, device=x.device))


def following(x: Tensor, p: Partition, where: Tensor, fill: float | Tensor = 0.0) -> Tensor:
    """The value at the next later element in `where` of the same cell; `fill` (a number, or one per cell) if none."""
    n = x.numel()
    place = torch.arange(n, device=x.device)
    candidate = torch.where(where, place, torch.full_like(place, n))
    # After this, nearest[t] is the first place >= t in `where`; the one after t itself is wanted.
    nearest = candidate.flip(0).cummin(0).values.flip(0)
    after = torch.cat([nearest[1:], nearest.new_full((min(n, 1),), n)])
    safe = after.clamp(max=max(n - 1, 0))
    inside = (after < n) & (p.index.index_select(0, safe) == p.index)
    default = p.spread(fill) if isinstance(fill, Tensor) else torch.full((), fill, dtype=x.dtype, device=x.device)
    return torch.where(inside, x.index_select(0, safe), default)


def first(p: Partition, where: Tensor | None = None) -> Tensor:
    """True at the first element (of those in `where`) of each cell."""
    return _edge(p, where, "amin")


def last(p: Partition, where: Tensor | None = None) -> Tensor:
    """True at the last element (of those in `where`) of each cell."""
    return _edge(p, where, "amax")


def _edge(p: Partition, where: Tensor | None, how: str) -> Tensor:
    n = p.index.numel()
    place = torch.arange(n, device=p.index.device)
    outside = n if how == "amin" else -1
    candidate = place if where is None else torch.where(where, place, torch.full_like(place, outside))
    edge = candidate.new_full((p.cells,), outside).scatter_reduce(0, p.index, candidate, how)
    return p.spread(edge) == place
