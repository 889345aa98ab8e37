"""Advantages that a rollout takes over from another one."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.branches import parent_rows
from podium.core.columns import Purpose
from podium.core.part import Columns, Shape

__all__ = ["FromParent"]


class FromParent(Shape):
    """A rollout of purpose `demo` takes the advantage of its parent: A ← A(parent).

    So a verdict about a trajectory is trained by what became of the trajectory, though it has no reward of its own and
    enters no statistics. Rollouts of other purposes, and those whose parent is not in the batch, keep theirs.
    """

    needs = ("rollout.advantage", "rollout.parent", "rollout.purpose", "rollout.index")
    provides = ("rollout.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        advantage, parent = batch["rollout.advantage"], parent_rows(batch)
        inherits = (parent >= 0) & (batch["rollout.purpose"] == Purpose.demo)
        return {"rollout.advantage": advantage[parent.clamp(min=0)].where(inherits, advantage)}
