"""A bonus for right answers that were sampled with guidance."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["GuidedBonus"]


class GuidedBonus(Reward):
    """Adds a bonus to the reward of right rollouts that were guided by demonstrations; usually annealed to 0."""

    reference = "ICPO: In-Context Steered Policy Optimization, https://arxiv.org/abs/2510.26519"
    bonus: Number = 1.0  # ≥ 0

    needs = ("rollout.reward", "rollout.correct", "rollout.guided")
    provides = ("rollout.reward", "rollout.reward.guided")

    def __post_init__(self) -> None:
        within(self, "bonus", 0)

    def __call__(self, batch: Batch) -> Columns:
        bonus = self.bonus * (batch["rollout.correct"].bool() & batch["rollout.guided"]).to(batch.dtype)
        return {"rollout.reward": batch["rollout.reward"] + bonus, "rollout.reward.guided": bonus}
