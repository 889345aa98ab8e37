"""The tasks of the highest score, instead of a draw by weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from podium.core.errors import within
from podium.core.part import Select, repeated
from podium.core.schedule import Number

__all__ = ["Best", "ordered"]


def ordered(score: Tensor, ties: Tensor) -> Tensor:
    """The numbers of the tasks by falling score; of equal ones the lowest in `ties` comes first."""
    first = torch.argsort(ties, stable=True)
    return first[torch.argsort(score[first], descending=True, stable=True)]


class Best(Select):
    """The tasks with the highest scores, a share of them instead at random; equal scores in random order.

    With `pool`, that many times the tasks that are wanted are drawn at random first, and only these are compared.
    """

    uniform: Number = 0.0  # the share of a batch that is drawn without regard to scores
    pool: int | None = None  # candidates for each task of a batch; None: all tasks are compared

    read_by_loop: ClassVar[tuple[str, ...]] = ("uniform", "pool")

    def __post_init__(self) -> None:
        within(self, "uniform", 0, 1)
        within(self, "pool", 1, optional=True)

    def candidates(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        """The numbers of the tasks that are compared, where `count` are wanted."""
        if self.pool is None:
            return torch.arange(len(columns["group.random"]))
        return torch.argsort(columns["group.random"], stable=True)[: self.pool * count]

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        chance, pool = columns["group.random"], self.candidates(columns, count)
        order = pool[ordered(self(columns)[pool], chance[pool])]
        at_random = min(int(self.uniform * count), len(order))
        best = order[: max(count - at_random, 0)]
        rest = order[len(best) :]
        return repeated(torch.cat([best, rest[torch.argsort(chance[rest])]]), count)
