"""Relations: pairs of elements, for preferences, tournaments and pairwise losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from podium.core.errors import PodiumError, nearest
from podium.core.partition import Partition

__all__ = ["Relation", "pairs"]


@dataclass(frozen=True)
class Relation:
    """Pairs of elements of one level, with columns such as a judge's verdict."""

    level: str
    left: Tensor  # [pair]
    right: Tensor  # [pair]
    columns: Mapping[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.columns:
            raise PodiumError(f"The relation has no column {name!r}. {nearest(name, self.columns)}")
        return self.columns[name]

    def names(self, name: str) -> tuple[str, ...]:
        """What a part that returns this relation as `name` provides: its columns, or `name` alone if it has none."""
        return tuple(f"{name}.{column}" for column in self.columns) or (name,)

    def empty(self) -> Relation:
        """The same relation of nobody."""
        none = slice(0, 0)
        return Relation(self.level, self.left[none], self.right[none], {k: x[none] for k, x in self.columns.items()})

    def sum(self, x: Tensor, side: Literal["left", "right"], size: int) -> Tensor:
        """Σ of a value per pair over the pairs in which an element stands on `side`; one value per element."""
        return x.new_zeros(size).index_add(0, self.left if side == "left" else self.right, x)


def pairs(p: Partition) -> Relation:
    """All ordered pairs of different elements of a cell."""
    # Each element stands on the left once for every element of its cell.
    left = torch.arange(len(p), device=p.index.device).repeat_interleave(p.spread(p.lengths()))
    right = p.members(p.index)
    different = left != right
    return Relation(p.level, left[different], right[different])
