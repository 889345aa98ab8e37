"""Keys: the values of columns as integer codes, alone and together. Elements with equal codes share a cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from podium.core.columns import Column
from podium.core.errors import PodiumError

__all__ = ["combine_keys", "compact", "factorize", "number_values"]


def number_values(values: Iterable[Any]) -> tuple[list[int], list[Any]]:
    """A number for each value, from 0 in the order in which they first appear, and the distinct values."""
    table: dict[Any, int] = {}
    return [table.setdefault(value, len(table)) for value in values], list(table)


def factorize(column: Column, name: str, device: torch.device) -> tuple[Tensor, int]:
    """Integer codes for the values of a column, and their bound."""
    if isinstance(column, Tensor):
        values, codes = torch.unique(column, return_inverse=True, dim=None if column.dim() == 1 else 0)
        return codes, len(values)
    try:
        numbers, distinct = number_values(column)
    except TypeError as error:
        raise PodiumError(f"{name!r} cannot be a key, since its values cannot be compared: {error}.") from error
    return torch.tensor(numbers, dtype=torch.long, device=device), len(distinct)


def compact(codes: Tensor, bound: int | None = None) -> tuple[Tensor, int]:
    """Renumber `codes` to 0..cells-1 without holes, keeping their order; with a `bound` they lie in 0..bound-1."""
    if codes.numel() == 0:
        return codes.long(), 0
    if bound is None or bound > 8 * codes.numel() + 1024:
        unique, inverse = torch.unique(codes, return_inverse=True)
        return inverse, unique.numel()
    used = torch.zeros(bound, dtype=torch.bool, device=codes.device)
    used[codes] = True
    if bool(used.all()):
        return codes, bound
    number = used.cumsum(0) - 1
    return number.index_select(0, codes), int(used.sum())


def combine_keys(keys: list[tuple[Tensor, int]], size: int, device: torch.device) -> tuple[Tensor, int]:
    """The cells of several keys taken together; each key is (codes, bound). No cell is empty."""
    if not keys:
        return torch.zeros(1, dtype=torch.long, device=device).expand(size), min(size, 1)
    codes, bound = compact(*keys[0])
    for other, other_bound in keys[1:]:
        codes, bound = compact(codes * max(other_bound, 1) + other, bound * max(other_bound, 1))
    return codes, bound
