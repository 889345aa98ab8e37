"""Partial rollouts: tasks whose rollouts were interrupted at a token budget are resumed before new ones start."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.part import Need, Select

__all__ = ["ResumeFirst"]


class ResumeFirst(Select):
    """Takes the tasks with unfinished rollouts first; the rest of the batch is drawn uniformly."""

    column: str = "group.in_flight.count"  # the number of unfinished rollouts per task

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.column,)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        waiting = columns[self.column] > 0
        # So large a weight that no other task is drawn while one with unfinished rollouts is left.
        weight = torch.where(waiting, 1e15, 1.0)
        return weight / weight.sum()
