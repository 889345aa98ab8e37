"""Elastic trust regions: clip bounds that widen with the learning signal."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number

__all__ = ["ElasticClip"]


class ElasticClip(Shape):
    """Elastic trust region: clip bounds `rollout.clip_low` = low · scale and `rollout.clip_high` = high · scale.

    scale = clip(1 + micro · (tanh|A| − tanh 1) + macro · (v − ½), smallest, largest),  v = 4 p (1 − p),

    with p the pass rate of the group; for rewards other than 0 and 1, v = 4 · variance / range². At |A| = 1 and v = ½
    the scale is 1. `rollout.clip_low` is at most 0.99.
    """

    reference = "ETR: Outcome-Guided Elastic Trust Regions for Policy Optimization"
    low: Number = 0.2  # ε below 1 at scale 1
    high: Number = 0.2  # ε above 1 at scale 1
    micro: Number = 0.5  # the effect of the size of the advantage; 0 with macro = 0: constant bounds
    macro: Number = 0.5  # the effect of the variance of the group's outcomes
    smallest: Number = 0.5  # scale, at most 1
    largest: Number = 2.0  # scale, at least 1

    needs = ("rollout.advantage", "rollout.reward")
    provides = ("rollout.clip_low", "rollout.clip_high", "rollout.clip_scale")

    def __post_init__(self) -> None:
        within(self, "low", 0)
        within(self, "high", 0)
        within(self, "micro", 0)
        within(self, "macro", 0)
        within(self, "smallest", 0, 1)
        within(self, "largest", 1)

    @property
    def neutral(self) -> ElasticClip:
        return self.replace(micro=0.0, macro=0.0)

    @staticmethod
    def uncertainty(pass_rate: Tensor) -> Tensor:
        """v of a group in which this share of the rollouts succeeds."""
        return 4 * pass_rate * (1 - pass_rate)

    def spread(self, batch: Batch) -> Tensor:
        """[group] v."""
        groups = batch.by("rollout", "group").agg

        def share(reward: Tensor) -> Tensor:
            square = (groups.max(reward) - groups.min(reward)).square()
            varied = (groups.count() > 0) & (square > 0)
            return (4 * groups.var(reward, unbiased=False) / square.where(varied, 1)).where(varied, 0)

        return overflow_safe(share, batch["rollout.reward"]).clamp(max=1)

    def scale(self, advantage: Tensor, v: Tensor) -> Tensor:
        """The factor of the bounds."""
        size = advantage.abs().tanh() - math.tanh(1.0)
        return (1 + self.micro * size + self.macro * (v - 0.5)).clamp(float(self.smallest), float(self.largest))

    def __call__(self, batch: Batch) -> Columns:
        scale = self.scale(batch["rollout.advantage"], batch.spread(self.spread(batch), "group", "rollout"))
        low = torch.as_tensor(self.low * scale).clamp(max=0.99)
        return {"rollout.clip_low": low, "rollout.clip_high": self.high * scale, "rollout.clip_scale": scale}
