"""A vector of scores from columns that are there anyway: the reward, the length, …"""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Annotate, Columns, Need
from podium.core.schedule import Number

__all__ = ["ScoreVector"]


class ScoreVector(Annotate):
    """Writes `rollout.scores` [rollout, k]: 100 · column_j / full_j, for k columns.

    Directions in the space of scores mean something only if the scores share a scale, here 0 to 100.
    """

    of: tuple[str, ...] = ("rollout.reward", "rollout.length")  # columns of rollouts
    full: tuple[Number, ...] = (1.0, 100.0)  # the value of each that counts as 100

    provides = ("rollout.scores",)

    def __post_init__(self) -> None:
        if len(self.of) != len(self.full) or not self.of:
            raise PodiumError(f"ScoreVector has {len(self.of)} columns and {len(self.full)} scales: give one for each.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.of

    def __call__(self, batch: Batch) -> Columns:
        scaled = [100 * batch[name].to(batch.dtype) / float(x) for name, x in zip(self.of, self.full, strict=True)]
        return {"rollout.scores": torch.stack(scaled, -1)}
