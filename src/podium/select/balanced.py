"""Every domain alike, however many tasks it has."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.part import Need, Select

__all__ = ["Balanced"]


class Balanced(Select):
    """1 / (tasks with the same value of `by`): in expectation a batch holds as many tasks of each."""

    reference = "QwenLong-L1.5, https://github.com/Tongyi-Zhiwen/Qwen-Doc"
    by: str = "group.domain.code"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.by,)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        _, code, count = torch.unique(columns[self.by], return_inverse=True, return_counts=True)
        weight = 1 / count[code].to(torch.float64)
        return weight / weight.sum()
