"""Tokens whose log-probability and advantage rise together: a few of them carry most of the loss of entropy."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Shape, stop_gradient
from podium.core.partition import Partition
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.objective.surrogate import Clip, PolicyGradient

__all__ = ["DropCovariant", "SelectCovariant", "covariance"]

NOW, OLD = Signal("logp", of="now"), Signal("logp", of="old")


def covariance(batch: Batch) -> tuple[Tensor, Partition]:
    """[token] c = (A − mean A) · (log π − mean log π) over the trained tokens of the update, and their partition."""
    trained = batch.by("token", where=batch.trained("token"))
    return trained.centre(batch["token.advantage"]) * trained.centre(stop_gradient(batch[NOW])), trained


def budget(share: float, trained: Partition) -> Tensor:
    """How many tokens a share of the trained ones is: at least one."""
    # In float64, as a plain floor(n · share) is: float32 would round 100 · 0.29 = 28.999… up to 29.
    return (trained.agg.count().double() * share).floor().clamp(min=1)


class SelectCovariant(Shape):
    """`token.selected` is True at the `share` of trained tokens with the largest c, at least one. For KL-Cov."""

    reference = "The Entropy Mechanism of RL for Reasoning Language Models, https://arxiv.org/abs/2505.22617"
    share: Number = 0.002  # of the trained tokens

    needs = ("token.advantage", NOW)
    provides = ("token.selected",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        c, trained = covariance(batch)
        rank = trained.rank(-c)
        return {"token.selected": (rank >= 0) & (rank < budget(self.share, trained))}


class DropCovariant(Shape):
    """Weight 0 on random tokens with low < c < high that the clip has not stopped already. For Clip-Cov.

    They stay in the denominator.
    """

    reference = "The Entropy Mechanism of RL for Reasoning Language Models, https://arxiv.org/abs/2505.22617"
    share: Number = 0.0002  # of the trained tokens, at least one
    low: Number = 1.0
    high: Number = 5.0
    clip: Clip = Clip(1.0, 1.0)  # the clip of the objective

    provides = ("token.weight.covariance",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", NOW, OLD, *self.clip.needs())

    def dropped(self, batch: Batch) -> Tensor:
        """[token] who loses its loss."""
        c, trained = covariance(batch)
        watched = PolicyGradient(clip=self.clip).diagnostics(batch)
        stopped = watched["clip_fraction"] | watched.get("dual_clip_fraction", torch.zeros_like(c, dtype=torch.bool))
        candidate = (self.low < c) & (c < self.high) & ~stopped
        rank = trained.rank(batch.random("token", "covariance"), where=candidate)
        return (rank >= 0) & (rank < budget(self.share, trained))

    def __call__(self, batch: Batch) -> Columns:
        return {"token.weight.covariance": (~self.dropped(batch)).to(batch.dtype)}
