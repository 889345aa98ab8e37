"""A difficulty filter by the pass rates of two other models."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Keep
from podium.core.schedule import Number

__all__ = ["KeepWeakStrong"]


class KeepWeakStrong(Keep):
    """Drops the tasks that a weak model nearly always solves, p_weak ≥ high, and those that a strong one never does,
    p_strong ≤ low.

    Reads `ModelRates`. high > 1 and low < 0 keep everything.
    """

    reference = "Guru, https://github.com/LLM360/Reasoning360"
    high: Number = 0.9375  # of the weak model: 15 of 16
    low: Number = 0.0  # of the strong model, inclusive

    needs = ("group.rate.weak", "group.rate.strong")
    provides = ("group.keep",)

    def __post_init__(self) -> None:
        within(self, "high", 0)

    def __call__(self, batch: Batch) -> Columns:
        return {"group.keep": (batch["group.rate.weak"] < self.high) & (batch["group.rate.strong"] > self.low)}
