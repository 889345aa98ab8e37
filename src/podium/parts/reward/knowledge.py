"""Rewards for searching only what is not known."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["KnowledgeBoundary"]


class KnowledgeBoundary(Reward):
    """Rewards a right answer more the fewer searches it took, and a wrong one a little if it searched at all.

        R = 1 + plus · max(0, 1 − searches / most)   right
        R = minus · [searches ≥ 1]                   wrong
        R = malformed                                not well-formed

    plus = minus = 0 is the reward of right answers alone. Searches beyond `most` cost nothing more.
    """

    reference = "IKEA, https://github.com/hzy312/knowledge-r1"
    plus: Number = 0.6  # bonus of a right answer without a search
    minus: Number = 0.05  # reward of a wrong answer after a search
    most: int = 3  # searches at which the bonus is used up, ≥ 1
    malformed: Number = -1.0

    needs = ("rollout.searches", "rollout.matched", "rollout.formed")
    provides = ("rollout.reward", "rollout.reward.boundary")

    def __post_init__(self) -> None:
        within(self, "most", 1)

    def __call__(self, batch: Batch) -> Columns:
        searches, right = batch["rollout.searches"].to(batch.dtype), batch["rollout.matched"].bool()
        bonus = float(self.plus) * (1 - searches / self.most).clamp(min=0)
        tried = float(self.minus) * (searches >= 1).to(batch.dtype)
        bonus = torch.where(right, bonus, tried)
        reward = (right.to(batch.dtype) + bonus).where(batch["rollout.formed"].bool(), float(self.malformed))
        return {"rollout.reward": reward, "rollout.reward.boundary": reward - right.to(batch.dtype)}
