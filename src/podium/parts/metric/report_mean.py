"""The mean of any column, as a metric."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Metric, Need

__all__ = ["ReportMean"]


class ReportMean(Metric):
    """Reports the mean of a column over the rows that count or are trained; of a boolean column the share of True."""

    column: str  # its full name, such as group.imitated
    where: str | None = None  # a boolean column of the same level that restricts the mean; None: all rows

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.column,) if self.where is None else (self.column, self.where)

    @property
    def provides(self) -> tuple[str, ...]:
        name = self.column.partition(".")[2].replace("keep.", "kept.")  # the mean of a filter is the share that is kept
        return (f"batch.watched.{name}",)

    def __call__(self, batch: Batch) -> Columns:
        level = self.column.partition(".")[0]
        counted = batch.counted(level)
        where = None if counted is None else counted | batch.trained(level, empty=True)
        if self.where is not None:
            where = batch[self.where] if where is None else where & batch[self.where]
        return {self.provides[0]: batch.partition(level, "batch").agg.mean(batch[self.column].to(batch.dtype), where)}
