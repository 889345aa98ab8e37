"""Tasks that are solved now and then, and tasks that have not been tried."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import PodiumError, within
from podium.core.part import Select
from podium.core.schedule import Number

__all__ = ["SometimesSolved"]


class SometimesSolved(Select):
    """Draws tasks whose last pass rate lies in [low, high], and tasks that were never tried, with equal probability;
    all tasks while there are none of either."""

    reference = "DoGe, https://github.com/opendatalab-raiser/DoGe"
    low: Number = 0.1  # in [0, 1], inclusive
    high: Number = 0.3  # at least low, inclusive

    needs = ("group.pass_rate.last", "group.visits")

    def __post_init__(self) -> None:
        within(self, "low", 0, 1)
        within(self, "high", 0, 1)
        if isinstance(self.low, float) and isinstance(self.high, float) and self.low > self.high:
            raise PodiumError(f"SometimesSolved.low = {self.low} must not be above high = {self.high}.")

    def pool(self, rate: Tensor) -> Tensor:
        """[task] Whether tasks of these pass rates are kept."""
        return (rate >= self.low) & (rate <= self.high)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        kept = self.pool(columns["group.pass_rate.last"]) | (columns["group.visits"] == 0)
        weight = kept.double() if bool(kept.any()) else torch.ones(len(kept), dtype=torch.float64)
        return weight / weight.sum()
