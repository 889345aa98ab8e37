"""Conditional advantages: a group split by a metric, to learn in which direction of the metric rewards are higher."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Advantage, Columns, Need
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["SplitHalves"]

ENTROPY = Signal("entropy", of="old")


class SplitHalves(Advantage):
    """Compares the rollouts of a group across and within the two halves that a metric splits it into.

        A = (mu · inter + (1 − mu) · intra) / divisor
        inter = r − mean reward of the other half,  intra = r − mean reward of the rollout's own half

    The inter-half comparison favours the half with the higher rewards, in whichever direction of the metric it lies;
    mu = 0 compares rollouts of like metric alone. `group.halves.gap` is the difference of the halves' mean rewards.
    """

    reference = "CANON, https://github.com/biuboomc/CANON"
    metric: str = "entropy"  # the mean token entropy; random; or a column such as rollout.length
    mu: Number | str = 1.0  # weight of inter, in [0, 1]; or "reward", the batch's mean reward; or "1 - reward"
    discount: Number = 1.0  # factor on the rewards of one half in the inter-half comparison, ≥ 0
    discounted: str = "low"  # which half is discounted: low or high
    shift: Number = 0.0  # added to inter in the high half, subtracted in the low half
    divisor: Number = 1.0  # > 0, such as the maximal answer length in tokens

    provides = ("rollout.advantage", "group.halves.gap")

    def __post_init__(self) -> None:
        if isinstance(self.mu, str):
            one_of(self, "mu", ("reward", "1 - reward"))
        else:
            within(self, "mu", 0, 1)
        one_of(self, "discounted", ("low", "high"))
        within(self, "discount", 0)
        within(self, "divisor", 0, open_low=True)

    @property
    def neutral(self) -> SplitHalves:
        return self.replace(mu=0.5, discount=1.0, shift=0.0)  # the group's mean, for groups of even size

    @property
    def needs(self) -> tuple[Need, ...]:
        extra: dict[str, tuple[Need, ...]] = {"entropy": (ENTROPY,), "random": ()}
        return ("rollout.reward", *extra.get(self.metric, (self.metric,)))

    def measured(self, batch: Batch) -> Tensor:
        """[rollout] The metric."""
        if self.metric == "entropy":
            return batch.reduce(batch[ENTROPY], "token", "rollout", "mean")
        metric: Tensor = batch.random("rollout", "halves") if self.metric == "random" else batch[self.metric]
        return metric

    def __call__(self, batch: Batch) -> Columns:
        r, groups = batch["rollout.reward"], batch.by("rollout", "group")
        low = groups.rank(self.measured(batch)) < groups.count() // 2  # the high half has one more of an odd number
        mean_low, mean_high = groups.mean(r, low), groups.mean(r, ~low)
        factor_low, factor_high = (self.discount if self.discounted == half else 1.0 for half in ("low", "high"))
        inter = torch.where(
            low,
            factor_low * r - factor_high * mean_high - self.shift,
            factor_high * r - factor_low * mean_low + self.shift,
        )
        intra = groups.refine(low).centre(r).where(groups.count() > 1, r)  # a single rollout is compared with 0
        mu = self._weight(batch, r)
        advantage = (mu * inter + (1 - mu) * intra) / self.divisor
        gap = groups.agg.mean(r, ~low) - groups.agg.mean(r, low)
        return {"rollout.advantage": advantage, "group.halves.gap": gap}

    def _weight(self, batch: Batch, reward: Tensor) -> Tensor | float:
        if not isinstance(self.mu, str):
            return float(self.mu)
        mean = batch.by("rollout").agg.mean(reward)
        return mean if self.mu == "reward" else 1 - mean
