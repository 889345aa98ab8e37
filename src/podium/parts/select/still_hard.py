"""A curriculum in rounds over the tasks that are still hard."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import within
from podium.core.part import Select
from podium.parts.select.history import UNKNOWN

__all__ = ["StillHard"]


class StillHard(Select):
    """A curriculum in rounds: each trains on the tasks whose pass rate is still at most `at_most`.

    Before a round the previous round's tasks are measured (`Sweeps`), before round 0 the `pool` tasks with the lowest
    numbers; a task that was too easy once does not return. If no task is that hard any more, the previous round's tasks
    are trained again.
    """

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    at_most: float = 0.25  # pass rate, in [0, 1]
    pool: int | None = None  # tasks to start from; None: all

    needs = ("group.sweep.rates", "batch.sweep.phase", "group.number")

    def __post_init__(self) -> None:
        within(self, "at_most", 0, 1)
        within(self, "pool", 1, optional=True)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        rates, number = columns["group.sweep.rates"], columns["group.number"]
        members = torch.ones(len(number), dtype=torch.bool)
        if self.pool is not None:
            members = number.argsort(stable=True).argsort() < self.pool
        for phase in range(int(columns["batch.sweep.phase"][0]) + 1):
            due = members & (rates[:, phase] == UNKNOWN)
            if bool(due.any()):
                return due.double()
            hard = members & (rates[:, phase] <= self.at_most)
            members = hard if bool(hard.any()) else members
        return members.double()
