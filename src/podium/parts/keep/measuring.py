"""Rollouts that only measure a pass rate for the curriculum are not trained."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Keep
from podium.parts.select.history import UNKNOWN

__all__ = ["DropMeasuring"]


class DropMeasuring(Keep):
    """Drops the groups that were sampled only to measure a task's pass rate before a phase (`Sweeps`)."""

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"

    needs = ("group.sweep.rates", "batch.sweep.phase")
    provides = ("group.keep",)

    def __call__(self, batch: Batch) -> Columns:
        phase = int(batch["batch.sweep.phase"][0])
        return {"group.keep": batch["group.sweep.rates"][:, phase] != UNKNOWN}
