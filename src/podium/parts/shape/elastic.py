"""Clip bounds that stretch with the signal."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number

__all__ = ["ElasticClip"]


class ElasticClip(Shape):
    """Bounds `rollout.clip_low`, `rollout.clip_high` = base · scale, with

    scale = clip(1 + micro · (tanh|A| − tanh 1) + macro · (v − ½), smallest, largest),  v = 4 p (1 − p),

    p the pass rate of the group; for rewards other than 0 and 1, v = 4 · variance / range². |A| = 1 at v = ½ leaves
    the base. The lower bound stays below 1.
    """

    reference = "ETR: Outcome-Guided Elastic Trust Regions for Policy Optimization"
    low: Number = 0.2
    high: Number = 0.2
    micro: Number = 0.5  # how much the size of the advantage stretches the bounds
    macro: Number = 0.5  # and how much the spread of the group's outcomes
    smallest: Number = 0.5  # scale
    largest: Number = 2.0

    needs = ("rollout.advantage", "rollout.reward")
    provides = ("rollout.clip_low", "rollout.clip_high", "rollout.clip_scale")

    def __post_init__(self) -> None:
        within(self, "low", 0)
        within(self, "high", 0)
        within(self, "micro", 0)
        within(self, "macro", 0)
        within(self, "smallest", 0, 1)
        within(self, "largest", 1)

    @staticmethod
    def uncertainty(pass_rate: Tensor) -> Tensor:
        """v of a group in which this share of the rollouts succeeds."""
        return 4 * pass_rate * (1 - pass_rate)

    def spread(self, batch: Batch) -> Tensor:
        """[group] v."""
        reward, groups = batch["rollout.reward"], batch.by("rollout", "group").agg
        spread = (groups.max(reward) - groups.min(reward)).square()
        varied = (groups.count() > 0) & (spread > 0)
        v = 4 * groups.var(reward, unbiased=False) / spread.where(varied, 1)
        return v.where(varied, 0).clamp(max=1)

    def scale(self, advantage: Tensor, v: Tensor) -> Tensor:
        """By how much the bounds stretch."""
        size = advantage.abs().tanh() - math.tanh(1.0)
        return (1 + self.micro * size + self.macro * (v - 0.5)).clamp(float(self.smallest), float(self.largest))

    def __call__(self, batch: Batch) -> Columns:
        scale = self.scale(batch["rollout.advantage"], batch.spread(self.spread(batch), "group", "rollout"))
        low = torch.as_tensor(self.low * scale).clamp(max=0.99)
        return {"rollout.clip_low": low, "rollout.clip_high": self.high * scale, "rollout.clip_scale": scale}
