"""TODO How often each task was solved, visit by visit: rankings, and the hardest tasks in ever smaller sets."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Keep
from podium.parts.select.history import UNKNOWN

__all__ = ["DropMeasuring"]


class DropMeasuring(Keep):
    """Groups that only measure a task before its phase are not trained."""

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"

    needs = ("group.sweep.rates", "batch.sweep.phase")
    provides = ("group.keep",)

    def __call__(self, batch: Batch) -> Columns:
        phase = int(batch["batch.sweep.phase"][0])
        return {"group.keep": batch["group.sweep.rates"][:, phase] != UNKNOWN}
