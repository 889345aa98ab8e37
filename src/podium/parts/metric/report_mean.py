"""A column as a metric."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Metric, Need

__all__ = ["ReportMean"]


class ReportMean(Metric):
    """Reports the mean of a column over those who count or are trained; of yes and no, the share of yes."""

    column: str  # its full name, such as group.imitated
    where: str | None = None  # a boolean column of the same level: who enters

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.column,) if self.where is None else (self.column, self.where)

    @property
    def provides(self) -> tuple[str, ...]:
        name = self.column.partition(".")[2].replace("keep.", "kept.")  # a share, where the column says yes or no
        return (f"batch.watched.{name}",)

    def __call__(self, batch: Batch) -> Columns:
        level = self.column.partition(".")[0]
        counted = batch.counted(level)
        enters = None if counted is None else counted | batch.trained(level, empty=True)
        if self.where is not None:
            enters = batch[self.where] if enters is None else enters & batch[self.where]
        return {self.provides[0]: batch.partition(level, "batch").agg.mean(batch[self.column].to(batch.dtype), enters)}
