"""Rewards from features of an answer: weighted sums of columns, and a feature that pays only where it helps."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["ColumnBonus", "ContrastiveFeature", "WeightedSum"]


class ColumnBonus(Reward):
    """Adds weight · x to the reward, x a column of rollouts such as a format score. weight = 0 adds nothing."""

    of: str = "rollout.answered"  # x
    weight: Number = 0.5  # negative: a penalty

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.of)

    @property
    def provides(self) -> tuple[str, ...]:
        return ("rollout.reward", f"rollout.reward.{self.of.partition('.')[2]}")

    def __call__(self, batch: Batch) -> Columns:
        total, addend = self.provides
        bonus = self.weight * batch[self.of]
        return {total: batch[total] + bonus, addend: bonus}


class WeightedSum(Reward):
    """Replaces the reward by a weighted sum of columns: r = Σ weight · x."""

    terms: tuple[tuple[str, float], ...] = (("rollout.correct", 0.9), ("rollout.format", 0.1))  # (x, weight)

    provides = ("rollout.reward",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(column for column, _ in self.terms)

    def __call__(self, batch: Batch) -> Columns:
        zero = torch.zeros(len(batch), dtype=batch.dtype, device=batch.device)
        return {"rollout.reward": sum((weight * batch[column].to(batch.dtype) for column, weight in self.terms), zero)}


class ContrastiveFeature(Reward):
    """Rewards a feature, such as a tool call, in groups where it helps, and penalises it where it hurts.

        r ← r + weight · m for rollouts with the feature,  m = sign(gap) if |gap| > margin, else 0
        gap = accuracy of the group's rollouts with the feature − accuracy of those without

    A group in which all or none have the feature has gap 0. weight = 0 is the plain reward.
    """

    reference = "GeometryZero, https://github.com/ekonwang/GeometryZero"
    feature: str = "rollout.feature"  # a column, above 0 where the rollout has it
    accuracy: str = "rollout.correct"
    margin: Number = 0.1  # gaps up to this one count as none, ≥ 0
    weight: Number = 0.5

    provides = ("rollout.reward", "rollout.reward.contrast", "group.contrast")

    def __post_init__(self) -> None:
        within(self, "margin", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.feature, self.accuracy)

    def gap(self, batch: Batch) -> Tensor:
        """[group] How much more accurate the rollouts with the feature are."""
        has, right, groups = batch[self.feature] > 0, batch[self.accuracy], batch.by("rollout", "group").agg
        both = (groups.count(has) > 0) & (groups.count(~has) > 0)
        return (groups.mean(right, has) - groups.mean(right, ~has)).where(both, 0)

    def __call__(self, batch: Batch) -> Columns:
        gap = self.gap(batch)
        sign = gap.sign().where(gap.abs() > self.margin, 0)
        bonus = (self.weight * batch.spread(sign, "group", "rollout")).where(batch[self.feature] > 0, 0)
        reward = batch["rollout.reward"] + bonus
        return {"rollout.reward": reward, "rollout.reward.contrast": bonus, "group.contrast": sign}
