"""A directional reward: the projection of a vector of scores on a direction."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Columns, Reward

__all__ = ["DirectionalReward"]


class DirectionalReward(Reward):
    """R = v · s, with s the scores of a rollout and v = (cos φ, sin φ) the direction at its angle φ.

    φ = 0 rewards the first score alone.
    """

    reference = "DPA, https://arxiv.org/abs/2402.18571"

    needs = ("rollout.scores", "rollout.angle")
    provides = ("rollout.reward", "rollout.reward.directional")

    def __call__(self, batch: Batch) -> Columns:
        scores, radians = batch["rollout.scores"], torch.deg2rad(batch["rollout.angle"])
        if scores.dim() != 2 or scores.shape[1] != 2:
            raise PodiumError(
                f"A direction has two components, but rollout.scores has the shape {tuple(scores.shape)}: use a reward "
                "model of two heads, or a ScoreVector of two columns."
            )
        direction = torch.stack([radians.cos(), radians.sin()], -1).to(scores.dtype)
        reward = (direction * scores).sum(-1)
        return {"rollout.reward": reward, "rollout.reward.directional": reward}
