"""Risk-sensitive advantages over bundles of questions: binary rewards of one question are too coarse for quantiles."""

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
    """Rollouts by paper: the k-th rollout of every question of a bundle, as if one student had sat an exam of them.

    k runs up to the size of the bundle's smallest group; rollouts beyond that belong to no paper.
    """
    groups = batch.by("rollout", "group")
    k = groups.rank(batch["rollout.index"].to(batch.dtype))
    smallest = batch.by("rollout", "group.bundle").min(groups.count().to(batch.dtype))
    return batch.by("rollout", "group.bundle", k, where=(k >= 0) & (k < smallest))


def scores(batch: Batch, paper: Partition) -> tuple[Tensor, Tensor]:
    """[paper] The summed reward of its rollouts, and whether it has any.

    Where papers have different numbers of questions, a sum is scaled to the mean number: papers of all bundles are
    compared with the same quantiles.
    """
    count = paper.agg.count()
    taken = count > 0
    questions = count.to(batch.dtype)
    scale = paper.by().mean(questions, taken) / questions.clamp(min=1)
    return paper.agg.sum(batch["rollout.reward"]) * scale.where(taken, 0), taken


class RiskBundles(Advantage):
    """Risk-sensitive advantage: a mixed value-at-risk of the scores S of papers, which stresses hard questions.

        g = ((S − a)⁺ − (S − b)⁺ [+ a − b]) / (high − low),  h = −(a − S)⁺ / low,  value = (w·h + g) / (w + 1)

    a and b are the quantiles of S at the levels low and high; S is the total reward of a paper (`papers`). The value is
    divided by the std of the bundle's scores and credited to the rollouts of the paper. The upper tail uses
    h = (S − b)⁺ / (1 − high) instead. tail = "none" is the range value-at-risk g alone.
    """

    reference = REFERENCE
    low: Number = 0.2  # quantile level, in [0, 1]
    high: Number = 0.8  # quantile level, in [0, 1]
    quantiles: str = "track"  # track (those of `QuantileTracker`), batch (of the bundle's own scores), mix (their mean)
    tail: str = "lower"  # which tail has extra weight: lower, upper or none
    tail_weight: Number = 1.5  # w, ≥ 0
    natural_baseline: bool = True  # add a − b, so that no value is positive
    # How a paper's value is credited to its rollouts: uniform; std (divided by the std of the question's rewards);
    # score (halved for positive rewards, 1.5 times otherwise); sum-mean (in proportion to the reward's deviation).
    credit: str = "std"
    scale: str = "std"  # by what values are divided: the std of the bundle's scores, or none
    epsilon: float = 1e-6  # added to every divisor

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
        """[paper] The quantile of the scores at `level`."""
        of_batch = bundle.quantile(score, float(level), taken)
        if self.quantiles == "batch":
            return of_batch
        levels, tracked = batch["batch.risk.levels"][0], batch["batch.risk.quantiles"][0]
        q = tracked[(levels - float(level)).abs().argmin()]
        q = of_batch if bool(q.isnan()) else q.expand_as(of_batch)  # nothing is tracked before the first iteration
        return q if self.quantiles == "track" else (q + of_batch) / 2

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
        """[rollout] What each rollout of a paper gets of its value."""
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
            uniform = 1.0 / paper.count().clamp(min=1).to(value.dtype)
            return value * torch.where(total.abs() <= self.epsilon, uniform, deviation / total.where(total != 0, 1.0))
        return value
