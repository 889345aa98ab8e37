"""Rollouts that a column says are not to be trained."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Columns, Keep, Need

__all__ = ["DropMarked"]


class DropMarked(Keep):
    """Leave the rollouts for which `where` is true out of the loss; they still count in their group's statistics."""

    where: str = "rollout.degenerate"  # a boolean column of rollouts

    provides = ("rollout.keep.marked",)

    def __post_init__(self) -> None:
        if not self.where.startswith("rollout."):
            raise PodiumError(f"DropMarked.where = {self.where!r} must name a column of rollouts: rollout.NAME.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.where,)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.marked": ~batch[self.where].bool()}
