"""A judge's verdict as the outcome."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["VerdictReward"]


class VerdictReward(Reward):
    """The outcome by a judge: R = 1 where its score exceeds `above`, else 0. A neutral verdict is no success."""

    reference = "AgentFlow, https://github.com/lupantech/AgentFlow"
    score: str = "rollout.judged.score"  # a column of rollouts
    above: Number = 0.5  # exclusive

    provides = ("rollout.reward", "rollout.reward.verdict")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.score,)

    def __call__(self, batch: Batch) -> Columns:
        verdict = (batch[self.score] > self.above).to(batch.dtype)
        return {"rollout.reward": verdict, "rollout.reward.verdict": verdict}
