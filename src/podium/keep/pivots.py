"""Places where the next action matters and is not yet known."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns
from podium.core.schedule import Number
from podium.keep.mixed import KeepMixed

__all__ = ["KeepPivots"]


class KeepPivots(KeepMixed):
    """Keep a group with variance > 0 and mean < `below`: outcomes differ, and success is not the rule."""

    reference = "PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost"
    below: Number = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "below", 0)

    def __call__(self, batch: Batch) -> Columns:
        groups, x = batch.by(self.of.partition(".")[0], "group").agg, batch[self.of]
        return {"group.keep": (groups.max(x) > groups.min(x)) & (groups.mean(x) < self.below)}
