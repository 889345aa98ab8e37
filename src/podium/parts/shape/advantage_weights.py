"""Weights of advantage-weighted regression."""

from __future__ import annotations

import math

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number

__all__ = ["AdvantageWeights"]


class AdvantageWeights(Shape):
    """`turn.awr` = min(exp(A / temperature), most): what a term of log-likelihood multiplies each turn with.

    Among the policies within a KL ball of the one that has acted, the best one is proportional to it times exp(A /
    temperature). As the temperature goes to infinity all weights become 1, which is imitation of what was done; as it
    goes to 0 only actions with A > 0 remain.
    """

    reference = "READ, https://read-llm.github.io"
    temperature: Number = 1.0  # above 0
    most: float = 20.0  # the largest weight, above 0

    needs = ("turn.advantage",)
    provides = ("turn.awr",)

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)
        within(self, "most", 0, open_low=True)

    def weights(self, advantage: Tensor) -> Tensor:
        """The weight of each advantage."""
        return (advantage / float(self.temperature)).clamp(max=math.log(self.most)).exp()

    def __call__(self, batch: Batch) -> Columns:
        return {"turn.awr": self.weights(batch["turn.advantage"])}
