"""Best-of-N selection: one rollout of each group is trained."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Keep, Need

__all__ = ["KeepBest"]


class KeepBest(Keep):
    """Rejection sampling: keeps the rollout with the largest reward of each group; of equal ones the first.

    With one rollout a group nothing is rejected.
    """

    reference = "DPA, https://arxiv.org/abs/2402.18571"
    of: str = "rollout.reward"

    provides = ("rollout.keep.best",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.best": batch.by("rollout", "group").argmax(batch[self.of])}
