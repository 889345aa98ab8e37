"""TODO Windows: each iteration writes a bounded piece of every rollout, and what is not finished goes on in the next one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.part import Need, Select

__all__ = ["ResumeFirst"]


class ResumeFirst(Select):
    """Tasks with rollouts in flight before any other, which are drawn with equal chance."""

    column: str = "group.in_flight.count"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.column,)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        waiting = columns[self.column] > 0
        # So likely that no task without rollouts in flight is drawn as long as one with them is left.
        weight = torch.where(waiting, 1e15, 1.0)
        return weight / weight.sum()
