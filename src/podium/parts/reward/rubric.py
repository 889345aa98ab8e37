"""Rubric rewards: criteria with points, and a verdict on each criterion for every rollout."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from podium.core.batch import Batch
from podium.core.part import Columns, Reward

__all__ = ["Rubric", "score"]


def score(points: Tensor, met: Tensor) -> Tensor:
    """Σ points of the criteria that are met / Σ positive points, along the last dimension; 0 if none are positive."""
    highest = points.clamp(min=0).sum(-1)
    return torch.where(highest > 0, (points * met).sum(-1) / highest.where(highest > 0, 1), 0)


class Rubric(Reward):
    """Rubric reward: r = Σ points of the criteria that a rollout meets / Σ positive points of its task.

    Negative points penalise what should not occur, so r may be negative; it is not clipped. A task without positive
    points gives 0. `rollout.perfect`: whether every criterion with positive points is met and none with negative ones.
    """

    reference = "RuscaRL, https://arxiv.org/abs/2508.16949"

    needs = ("rollout.points", "rollout.met")
    provides = ("rollout.reward", "rollout.reward.rubric", "rollout.perfect")

    def __call__(self, batch: Batch) -> Columns:
        points, met = self._padded(batch["rollout.points"], batch), self._padded(batch["rollout.met"], batch)
        reward = score(points, met)
        perfect = ((met > 0) == (points > 0)) | (points == 0)
        return {
            "rollout.reward": reward,
            "rollout.reward.rubric": reward,
            "rollout.perfect": perfect.all(-1) & (points > 0).any(-1),
        }

    @staticmethod
    def _padded(rows: Sequence[Sequence[float]], batch: Batch) -> Tensor:
        """[rollout, criterion] with 0 where a task has fewer criteria."""
        values = [torch.tensor([float(x) for x in row], dtype=batch.dtype, device=batch.device) for row in rows]
        return pad_sequence(values, batch_first=True)
