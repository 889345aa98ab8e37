"""A rollout that served as the yardstick of its group has nothing to teach."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Shape

__all__ = ["DropPivot"]


class DropPivot(Shape):
    """Leave the median rollout of each group out of the update, of two the lower one; ties by index."""

    reference = "MC-GRPO, https://github.com/lotusroot-kim/MC-GRPO"
    of: str = "rollout.reward"

    provides = ("rollout.keep.pivot",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    def __call__(self, batch: Batch) -> Columns:
        groups = batch.by("rollout", "group")
        middle = (groups.count() - 1).clamp(min=0) // 2
        return {"rollout.keep.pivot": groups.rank(batch[self.of]) != middle}
