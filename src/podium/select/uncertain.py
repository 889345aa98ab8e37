"""Prefer tasks whose success is uncertain."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from podium.core.errors import PodiumError, within
from podium.core.part import Need, Select
from podium.core.schedule import Number

__all__ = ["Uncertain"]


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
