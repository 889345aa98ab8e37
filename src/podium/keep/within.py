"""Groups that are neither too easy nor too hard."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Columns
from podium.keep.mixed import KeepMixed

__all__ = ["KeepWithin"]


class KeepWithin(KeepMixed):
    """Keep a group whose mean of `of` lies strictly between `low` and `high`."""

    reference = "ARES, https://github.com/shawn0728/ARES"
    low: float = 0.01
    high: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise PodiumError(f"KeepWithin.low = {self.low} must be below high = {self.high}.")

    def __call__(self, batch: Batch) -> Columns:
        mean = batch.by(self.of.partition(".")[0], "group").agg.mean(batch[self.of])
        return {"group.keep": (self.low < mean) & (mean < self.high)}
