"""Rounds over the tasks that are still hard."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import within
from podium.core.part import Select
from podium.parts.select.history import UNKNOWN

__all__ = ["StillHard"]


class StillHard(Select):
    """A round trains on the tasks that were solved at a rate of at most `at_most` before it and before all the others.

    The tasks of the round before are measured first: before round 0 the `pool` tasks of the lowest numbers. Where none
    is that hard any more, all of these go on.
    """

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    at_most: float = 0.25
    pool: int | None = None  # tasks; None: all

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
