"""Rejection sampling after the advantages: what is rejected has the weight 0, but stays in means and denominators."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["MarkNear", "RejectFar", "RejectLazy", "RejectMismatch", "WholeShares"]

NOW, OLD, SAMPLER = (Signal("logp", of=who) for who in ("now", "old", "sampler"))


class RejectFar(Shape):
    """Skip far off-policy updates: weight 0 if the mean of π / π_old over the trained tokens is above `above`."""

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    above: Number = 10.0  # the largest mean ratio, at least 1
    clamp: Number = 10.0  # log-ratios of tokens are clamped to ± this

    needs = (NOW, OLD)
    provides = ("batch.weight.near",)

    def __post_init__(self) -> None:
        within(self, "above", 1)
        within(self, "clamp", 0, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        ratio = (batch[NOW] - batch[OLD]).clamp(-self.clamp, self.clamp).exp()
        mean = batch.partition("token", "batch").agg.mean(ratio, batch.trained("token"))
        return {"batch.weight.near": (mean <= self.above).to(batch.dtype)}


class MarkNear(Shape):
    """Off-policy sequence masking: `rollout.near` is False where A < 0 and mean_t log(π_old / π) is above `delta`.

    The mean is over the trained tokens of a rollout, A that of its tokens. A term with where="rollout.near" and
    over="all" leaves such rollouts out of its sum and keeps its denominator.
    """

    reference = "DeepSeek-V3.2, https://arxiv.org/abs/2512.02556"
    delta: Number = 1e-4  # the largest mean log-ratio, at least 0
    behaviour: str = "old"  # old, or sampler

    provides = ("rollout.near",)

    def __post_init__(self) -> None:
        within(self, "delta", 0)
        one_of(self, "behaviour", ("old", "sampler"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", NOW, Signal("logp", of=self.behaviour))

    def __call__(self, batch: Batch) -> Columns:
        trained = batch.trained("token")
        gone = batch[Signal("logp", of=self.behaviour)] - batch[NOW]
        kl, advantage = (
            batch.reduce(x, "token", "rollout", "mean", where=trained) for x in (gone, batch["token.advantage"])
        )
        return {"rollout.near": (advantage >= 0) | (kl <= self.delta)}


class RejectLazy(Shape):
    """Profiling-based rejection: a correct step stays with probability clip((coverage − threshold) / factor, 0, 1).

    `coverage` is that of the step (`own`) or the geometric mean over the valid steps of its rollout (`geometric`).
    Incorrect steps, and steps with a speedup of at least `fast`, always stay.
    """

    reference = "Profiling-based rejection sampling, https://github.com/hkust-nlp/KernelGYM"
    threshold: Number = 0.3  # the coverage up to which the probability is 0
    factor: Number = 0.1  # the width over which it rises to 1; above 0
    coverage: str = "own"  # own or geometric
    fast: Number | None = None  # a speedup; None: coverage decides alone

    provides = ("step.weight.coverage",)

    def __post_init__(self) -> None:
        within(self, "factor", 0, open_low=True)
        one_of(self, "coverage", ("own", "geometric"))

    @property
    def needs(self) -> tuple[Need, ...]:
        geometric = ("step.valid",) if self.coverage == "geometric" else ()
        return ("step.coverage", "step.correct", *geometric, *(() if self.fast is None else ("step.speedup",)))

    def probability(self, batch: Batch) -> Tensor:
        """[step] the probability of staying."""
        coverage: Tensor = batch["step.coverage"]
        if self.coverage == "geometric":
            logs = coverage.clamp(min=torch.finfo(coverage.dtype).tiny).log()
            mean = batch.reduce(logs, "step", "rollout", "mean", where=batch["step.valid"]).exp()
            coverage = batch.spread(mean, "rollout", "step")
        probability: Tensor = ((coverage - self.threshold) / self.factor).clamp(0, 1)
        exempt: Tensor = ~batch["step.correct"]
        if self.fast is not None:
            exempt = exempt | (batch["step.speedup"] >= self.fast)
        return probability.where(~exempt, 1.0)

    def __call__(self, batch: Batch) -> Columns:
        stays = batch.random("step", "lazy") < self.probability(batch)
        return {"step.weight.coverage": stays.to(batch.dtype)}


class RejectMismatch(Shape):
    """Mismatch rejection: a rollout stays if the geometric mean of π_old / π_sampler lies in [1 − band, 1 + band].

    The mean is over its sampled and trained tokens, none of which may have a ratio below `smallest`.
    """

    reference = "Mismatch rejection sampling, https://github.com/hkust-nlp/KernelGYM"
    band: Number = 1e-3  # at least 0
    smallest: Number = 1e-4  # the ratio of a single token

    needs = (OLD, SAMPLER)
    provides = ("rollout.weight.mismatch",)

    def __post_init__(self) -> None:
        within(self, "band", 0)
        within(self, "smallest", 0)

    def __call__(self, batch: Batch) -> Columns:
        sampled = batch.drawn & batch.trained("token")
        log_ratio = (batch[OLD] - batch[SAMPLER]).where(sampled, 0)
        mean = batch.reduce(log_ratio, "token", "rollout", "mean", where=sampled).exp()
        lowest = batch.reduce(log_ratio, "token", "rollout", "min").clamp(max=0).exp()
        stays = ((mean - 1).abs() <= self.band) & (lowest >= self.smallest)
        return {"rollout.weight.mismatch": stays.to(batch.dtype)}


class WholeShares(Shape):
    """Adaptive down-sampling: keep floor(C / D) · D of the C trained steps, chosen at random; all of them if C < D.

    Each of D workers then gets the same number of steps, without padding.
    """

    reference = "Adaptive downsampling, IterResearch, https://arxiv.org/abs/2511.07327"
    workers: int = 8  # D, at least 1

    provides = ("step.keep.share",)

    def __post_init__(self) -> None:
        within(self, "workers", 1)

    def __call__(self, batch: Batch) -> Columns:
        trained = batch.trained("step", empty="token" not in batch.levels)
        total = int(trained.sum())
        kept = total if total < self.workers else total - total % self.workers
        order = batch.by("step").rank(batch.random("step", "share"), where=trained)
        return {"step.keep.share": (order < kept) | ~trained}
