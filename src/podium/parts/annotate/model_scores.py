"""What a model with a value head makes of whole rollouts: one score each, or one for every head."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns, Need
from podium.parts.objective.rollout_value import last_value, score_signal

__all__ = ["ModelScores"]


class ModelScores(Annotate):
    """Writes `rollout.scores`: what a reward model makes of each rollout, one number for each of its heads.

    It is the value of the state before the last token, which is the end-of-turn token where the rollout has ended.
    """

    role: str = "rm"  # a role with a value head
    head: int | None = None  # one head alone, from 0; None: all

    provides = ("rollout.scores",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (score_signal(self.role, self.head),)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.scores": last_value(batch, score_signal(self.role, self.head))}
