"""Risk over bundles of questions: binary rewards of one question are too coarse for quantiles."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Advantage, Columns
from podium.core.partition import Partition
from podium.core.schedule import Number

__all__ = ["RiskBundles", "papers", "scores"]


REFERENCE = "RiskPO, https://github.com/RTkenny/RiskPO"


def papers(batch: Batch) -> Partition:
    """Rollouts by paper: the k-th rollout of each question of a bundle, k below the bundle's smallest group."""
    groups = batch.by("rollout", "group")
    k = groups.rank(batch["rollout.index"].to(batch.dtype))
    smallest = batch.by("rollout", "group.bundle").min(groups.count().to(batch.dtype))
    return batch.by("rollout", "group.bundle", k, where=(k >= 0) & (k < smallest))


def scores(batch: Batch, paper: Partition) -> tuple[Tensor, Tensor]:
    """[paper] the summed reward of its rollouts, and whether it is one: what lies beyond the smallest group is not."""
    return paper.agg.sum(batch["rollout.reward"]), paper.agg.count() > 0


class RiskBundles(Advantage):
    """A mixed value-at-risk of the scores S of papers, with quantiles a (level low) and b (level high):

    g = ((S − a)⁺ − (S − b)⁺ [+ a − b]) / (high − low),  h = −(a − S)⁺ / low,  value = (w·h + g) / (w + 1),

    divided by the std of the bundle's scores, and credited to the rollouts of each paper.
    """

    reference = REFERENCE
    low: Number = 0.2
    high: Number = 0.8
    quantiles: str = "track"  # track (of a memory), batch (of the bundle's own scores), mix (their mean)
    tail: str = "lower"  # extra weight on the lower tail, the upper one, or none
    tail_weight: Number = 1.5  # w, or u for the upper tail
    natural_baseline: bool = True  # add a − b, so that no value is positive
    credit: str = "std"  # uniform, std, score, sum-mean
    scale: str = "std"  # of the bundle's scores: std or none
    epsilon: float = 1e-6  # beside every divisor

    provides = ("rollout.advantage", "batch.risk.score")

    def __post_init__(self) -> None:
        within(self, "low", 0, 1)
        within(self, "high", 0, 1)
        one_of(self, "quantiles", ("track", "batch", "mix"))
        one_of(self, "tail", ("lower", "upper", "none"))
        one_of(self, "credit", ("uniform", "std", "score", "sum-mean"))
        one_of(self, "scale", ("std", "none"))
        within(self, "tail_weight", 0)
        within(self, "epsilon", 0, open_low=True)

    @property
    def needs(self) -> tuple[str, ...]:
        tracked = () if self.quantiles == "batch" else ("batch.risk.levels", "batch.risk.quantiles")
        return ("rollout.reward", "rollout.index", "group.bundle", *tracked)

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    def __call__(self, batch: Batch) -> Columns:
        paper = papers(batch)
        score, taken = scores(batch, paper)
        bundle = paper.by("group.bundle")  # papers in bundles
        a, b = (self._quantile(batch, bundle, score, taken, level) for level in (self.low, self.high))
        value = self._risk(score, a, b)
        if self.scale == "std":
            std = bundle.std(score, taken)
            value = value / (std.where(bundle.count(taken) > 1, torch.ones_like(std)) + self.epsilon)
        value = torch.where(taken, value, torch.zeros_like(value))
        credit = self._credit(batch, paper, paper.spread(value))
        return {"rollout.advantage": credit, "batch.risk.score": paper.by().agg.mean(score, taken)}

    def _quantile(self, batch: Batch, bundle: Partition, score: Tensor, taken: Tensor, level: Number) -> Tensor:
        """[paper] the quantile at `level`."""
        own = bundle.quantile(score, float(level), taken)
        if self.quantiles == "batch":
            return own
        levels, tracked = batch["batch.risk.levels"][0], batch["batch.risk.quantiles"][0]
        q = tracked[(levels - float(level)).abs().argmin()]
        q = own if bool(q.isnan()) else q.expand_as(own)  # nothing is tracked before the first iteration
        return q if self.quantiles == "track" else (q + own) / 2

    def _risk(self, s: Tensor, a: Tensor, b: Tensor) -> Tensor:
        low, high, w = float(self.low), float(self.high), float(self.tail_weight)
        middle = (s - a).clamp(min=0) - (s - b).clamp(min=0)
        if self.natural_baseline:
            middle = middle + a - b
        middle = middle / (high - low + self.epsilon)
        if self.tail == "lower":
            return (w * -(a - s).clamp(min=0) / (low + self.epsilon) + middle) / (w + 1)
        if self.tail == "upper":
            return ((s - b).clamp(min=0) / (1 - high + self.epsilon) * w + middle) / (w + 1)
        return middle

    def _credit(self, batch: Batch, paper: Partition, value: Tensor) -> Tensor:
        """[rollout] what each rollout of a paper gets of its value."""
        reward, question = batch["rollout.reward"], batch.by("rollout", "group")
        if self.credit == "std":
            std = question.std(reward)
            std = std.where((std >= 1e-3) & (question.count() > 1), torch.ones_like(std))
            return value / (std + self.epsilon)
        if self.credit == "score":
            return value * torch.where(reward > 0, 0.5, 1.5).to(value.dtype)
        if self.credit == "sum-mean":
            deviation = question.centre(reward)
            total = paper.sum(deviation)
            alike = 1.0 / paper.count().clamp(min=1).to(value.dtype)
            return value * torch.where(total.abs() <= self.epsilon, alike, deviation / total.where(total != 0, 1.0))
        return value
