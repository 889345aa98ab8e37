"""Comparing the rollouts of a group that differ in a metric with each other: which direction of it pays?"""

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
    """A = (mu · inter + (1 − mu) · intra) / divisor, the rollouts of a group halved by a metric:

    inter = r − mean reward of the other half; intra = r − mean reward of the own half.
    """

    reference = "CANON, https://github.com/biuboomc/CANON"
    metric: str = "entropy"  # the mean entropy of the tokens; random; or a column such as rollout.length
    mu: Number | str = 1.0  # the weight of inter; reward: the mean reward of the batch; 1 - reward
    discount: Number = 1.0  # factor on the rewards of one half where the halves are compared
    discounted: str = "low"  # which one: low or high
    shift: Number = 0.0  # added to inter in the high half, subtracted in the low one
    divisor: Number = 1.0  # > 0, such as the longest answer in tokens

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
    def needs(self) -> tuple[Need, ...]:
        extra: dict[str, tuple[Need, ...]] = {"entropy": (ENTROPY,), "random": ()}
        return ("rollout.reward", *extra.get(self.metric, (self.metric,)))

    def measured(self, batch: Batch) -> Tensor:
        """[rollout] the metric."""
        if self.metric == "entropy":
            return batch.reduce(batch[ENTROPY], "token", "rollout", "mean")
        found: Tensor = batch.random("rollout", "halves") if self.metric == "random" else batch[self.metric]
        return found

    def __call__(self, batch: Batch) -> Columns:
        r, groups = batch["rollout.reward"], batch.by("rollout", "group")
        low = groups.rank(self.measured(batch)) < groups.count() // 2  # of an odd number the high half has one more
        mean_low, mean_high = groups.mean(r, low), groups.mean(r, ~low)
        factor_low, factor_high = (self.discount if self.discounted == half else 1.0 for half in ("low", "high"))
        inter = torch.where(
            low,
            factor_low * r - factor_high * mean_high - self.shift,
            factor_high * r - factor_low * mean_low + self.shift,
        )
        intra = groups.refine(low).centre(r).where(groups.count() > 1, r)  # a rollout alone is compared with 0
        mu = self._weight(batch, r)
        advantage = (mu * inter + (1 - mu) * intra) / self.divisor
        gap = groups.agg.mean(r, ~low) - groups.agg.mean(r, low)  # what more of the metric pays
        return {"rollout.advantage": advantage, "group.halves.gap": gap}

    def _weight(self, batch: Batch, reward: Tensor) -> Tensor | float:
        if not isinstance(self.mu, str):
            return float(self.mu)
        mean = batch.by("rollout").agg.mean(reward)
        return mean if self.mu == "reward" else 1 - mean
