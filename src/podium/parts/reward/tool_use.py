"""Rewards for answers that took tools to find."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["ToolUse"]


class ToolUse(Reward):
    """−1 if the format is wrong; else the score of the answer, + bonus if it is above 0 and all tools were used."""

    reference = "ARPO, https://github.com/dongguanting/ARPO"
    bonus: Number = 0.1
    malformed: Number = -1.0

    needs = ("rollout.well_formed", "rollout.score", "rollout.all_tools")
    provides = ("rollout.reward", "rollout.reward.tools")

    def __call__(self, batch: Batch) -> Columns:
        score, formed = batch["rollout.score"], batch["rollout.well_formed"]
        reward = score + self.bonus * (batch["rollout.all_tools"] & (score > 0))
        reward = reward.where(formed, float(self.malformed))
        return {"rollout.reward": reward, "rollout.reward.tools": reward}
