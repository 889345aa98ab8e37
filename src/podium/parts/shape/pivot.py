"""The median rollout, which is the baseline of its group, is not trained."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Shape

__all__ = ["DropPivot"]


class DropPivot(Shape):
    """The median rollout of each group, whose reward is the baseline of the others, is not trained.

    In a group of even size it is the lower one of the two in the middle; ties by index.
    """

    reference = "MC-GRPO, https://github.com/lotusroot-kim/MC-GRPO"
    of: str = "rollout.reward"  # what the rollouts are ranked by

    provides = ("rollout.keep.pivot",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    def __call__(self, batch: Batch) -> Columns:
        groups = batch.by("rollout", "group")
        middle = (groups.count() - 1).clamp(min=0) // 2
        return {"rollout.keep.pivot": groups.rank(batch[self.of]) != middle}
