"""Prefer tasks whose success is uncertain."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import PodiumError, within
from podium.core.part import Need, Select
from podium.core.schedule import Number

__all__ = ["Balanced", "Uncertain"]


class Uncertain(Select):
    """sqrt(v (1 − v)) + explore, with v the tracked success rate of a task."""

    reference = "Single-stream Policy Optimization, https://arxiv.org/abs/2509.13232"
    explore: Number = 0.05
    value: str = "group.tracker.value"

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
