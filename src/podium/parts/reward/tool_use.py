"""Rewards for right answers that used the tools."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["ToolUse"]


class ToolUse(Reward):
    """Rewards the answer's score, plus a bonus if it is above 0 and all tools were used; a wrong format gets −1."""

    reference = "ARPO, https://github.com/dongguanting/ARPO"
    bonus: Number = 0.1
    malformed: Number = -1.0  # the reward of an answer in the wrong format
    score: str = "rollout.score"  # a column: how good the answer is, in [0, 1]
    formed: str = "rollout.well_formed"  # a boolean column: whether the format is right

    provides = ("rollout.reward", "rollout.reward.tools")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.formed, self.score, "rollout.all_tools")

    def __call__(self, batch: Batch) -> Columns:
        score, formed = batch[self.score], batch[self.formed]
        reward = score + self.bonus * (batch["rollout.all_tools"] & (score > 0))
        reward = reward.where(formed, float(self.malformed))
        return {"rollout.reward": reward, "rollout.reward.tools": reward}
