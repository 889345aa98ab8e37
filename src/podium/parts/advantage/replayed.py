"""Advantages of groups that contain off-policy, replayed rollouts."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns
from podium.core.schedule import Number

__all__ = ["DampReplayed"]


class DampReplayed(Advantage):
    """GRPO with damped advantages in groups with replayed rollouts: A = (r − mean) / (alpha · std + ε).

    Groups without replayed rollouts have alpha = 1; the std is unbiased. alpha = 1 is GRPO.
    """

    reference = "R³: Replay, Reflection and Ranking Rewards"
    alpha: Number = 1.0  # > 0; larger: smaller steps where some rollouts are off-policy
    epsilon: float = 1e-6  # ε, > 0

    needs = ("rollout.reward", "rollout.replayed")
    provides = ("rollout.advantage",)

    def __post_init__(self) -> None:
        within(self, "alpha", 0, open_low=True)
        within(self, "epsilon", 0, open_low=True)

    @property
    def normalizes(self) -> bool:
        return True

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.by("rollout", "group")
        mixed = batch.partition("rollout", "group").agg.any(batch["rollout.replayed"])
        alpha = torch.where(batch.spread(mixed, "group", "rollout"), self.alpha, 1.0).to(reward.dtype)
        return {"rollout.advantage": groups.centre(reward) / (alpha * groups.std(reward) + self.epsilon)}
