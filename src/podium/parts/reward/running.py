"""Reward normalisation by running statistics over all batches so far."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward

__all__ = ["RunningNormalize"]


REFERENCE = "SAFE, https://github.com/ryyzn9/SAFE"


def merged(batch: Batch, statistics: Tensor, of: str = "rollout.reward") -> Tensor:
    """[1, 3] Count, mean and variance after the values of a column join the statistics (parallel variance formula)."""
    count, mean, variance = statistics.double().unbind(-1)
    values = batch.by(of.partition(".")[0]).agg
    n = values.count().double()
    new_mean, new_variance = (f(batch[of].double()) for f in (values.mean, values.var))
    total, delta = count + n, new_mean - mean
    joined = (variance * count + new_variance * n + delta.square() * count * n / total) / total
    return torch.stack([total, mean + delta * n / total, joined], dim=-1)


class RunningNormalize(Reward):
    """Writes `rollout.reward.normalized` = (r − mean) / (std + ε) by running statistics, this batch included.

    Reads the statistics of `RewardStatistics`.
    """

    reference = REFERENCE
    epsilon: float = 1e-8

    needs = ("rollout.reward", "batch.reward.statistics")
    provides = ("rollout.reward.normalized",)

    def __post_init__(self) -> None:
        within(self, "epsilon", 0, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        _, mean, variance = merged(batch, batch["batch.reward.statistics"]).unbind(-1)
        mean, std = mean.to(batch.dtype), variance.sqrt().to(batch.dtype)
        return {"rollout.reward.normalized": (batch["rollout.reward"] - mean) / (std + self.epsilon)}
