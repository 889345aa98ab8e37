"""Rewards for right answers that used the tools."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["ToolUse"]


class ToolUse(Reward):
    """Rewards the answer's score, plus a bonus if it is above 0 and all tools were used; a malformed answer gets −1."""

    reference = "ARPO, https://github.com/dongguanting/ARPO"
    bonus: Number = 0.1
    malformed: Number = -1.0  # the reward of an answer in the wrong format

    needs = ("rollout.well_formed", "rollout.score", "rollout.all_tools")
    provides = ("rollout.reward", "rollout.reward.tools")

    def __call__(self, batch: Batch) -> Columns:
        score, formed = batch["rollout.score"], batch["rollout.well_formed"]
        reward = score + self.bonus * (batch["rollout.all_tools"] & (score > 0))
        reward = reward.where(formed, float(self.malformed))
        return {"rollout.reward": reward, "rollout.reward.tools": reward}
