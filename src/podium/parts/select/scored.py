"""Selection by a score per task: the highest scores, uncertain tasks, or an equal share of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from podium.core.errors import PodiumError, within
from podium.core.part import Need, Select, repeated
from podium.core.schedule import Number

__all__ = ["Balanced", "HighestScore", "Uncertain", "descending"]


def descending(score: Tensor, ties: Tensor) -> Tensor:
    """The indices of the tasks by descending score; among equal scores the lowest in `ties` comes first."""
    first = torch.argsort(ties, stable=True)
    return first[torch.argsort(score[first], descending=True, stable=True)]


class HighestScore(Select):
    """Takes the tasks with the highest scores, and a share of the batch at random. Subclasses define the score.

    Ties break at random. With `pool`, a random `pool · count` of the tasks are candidates for a batch of `count`, and
    only their scores are compared.
    """

    uniform: Number = 0.0  # the share of a batch that is drawn uniformly, whatever the scores, in [0, 1]
    pool: int | None = None  # candidates per task of a batch; None: all tasks

    read_by_loop: ClassVar[tuple[str, ...]] = ("uniform", "pool")

    def __post_init__(self) -> None:
        within(self, "uniform", 0, 1)
        within(self, "pool", 1, optional=True)

    @property
    def neutral(self) -> HighestScore:
        return self.replace(uniform=1.0)

    def candidates(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        """The indices of the tasks that are compared for a batch of `count`."""
        if self.pool is None:
            return torch.arange(len(columns["group.random"]))
        return torch.argsort(columns["group.random"], stable=True)[: self.pool * count]

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        random, pool = columns["group.random"], self.candidates(columns, count)
        order = pool[descending(self(columns)[pool], random[pool])]
        at_random = min(int(self.uniform * count), len(order))
        best = order[: max(count - at_random, 0)]
        rest = order[len(best) :]
        return repeated(torch.cat([best, rest[torch.argsort(random[rest])]]), count)


class Uncertain(Select):
    """Draws tasks in proportion to the standard deviation of their success: weight = sqrt(v (1 − v)) + explore.

    v is the tracked success rate of a task. A large `explore` is uniform sampling.
    """

    reference = "Single-stream Policy Optimization, https://arxiv.org/abs/2509.13232"
    explore: Number = 0.05  # added to every weight, ≥ 0
    value: str = "group.tracker.value"  # v, in [0, 1]

    def __post_init__(self) -> None:
        within(self, "explore", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.value,)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        v = columns[self.value]
        if bool(((v < 0) | (v > 1)).any()):
            raise PodiumError(f"Uncertain reads success rates: {self.value!r} must lie in [0, 1].")
        weight = (v * (1 - v)).sqrt() + self.explore
        return weight / weight.sum()


class Balanced(Select):
    """Balances a batch over the values of a column: weight = 1 / (number of tasks with the same value).

    In expectation a batch then holds equally many tasks of each value, such as each domain.
    """

    reference = "QwenLong-L1.5, https://github.com/Tongyi-Zhiwen/Qwen-Doc"
    by: str = "group.domain.code"  # a column of tasks

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.by,)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        _, code, count = torch.unique(columns[self.by], return_inverse=True, return_counts=True)
        weight = 1 / count[code].to(torch.float64)
        return weight / weight.sum()
