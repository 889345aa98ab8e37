"""Tokens whose log-probability and advantage rise together: a few of them carry most of the loss of entropy."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.parts.objective.clip import Clip
from podium.parts.objective.surrogate import PolicyGradient
from podium.parts.shape.scores import Tokens, covariance

__all__ = ["DropCovariant"]

NOW, OLD = Signal("logp", of="now"), Signal("logp", of="old")


class DropCovariant(Shape):
    """Weight 0 on random tokens with low < c < high that the clip has not stopped already. For Clip-Cov.

    c = (A − mean A)(log π − mean log π) over the trained tokens of the update. They stay in the denominator.
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
        c, trained = covariance(Tokens(batch, "now")), batch.by("token", where=batch.trained("token"))
        watched = PolicyGradient(clip=self.clip).diagnostics(batch)
        stopped = watched["clip_fraction"] | watched.get("dual_clip_fraction", torch.zeros_like(c, dtype=torch.bool))
        candidate = (self.low < c) & (c < self.high) & ~stopped
        rank = trained.rank(batch.random("token", "covariance"), where=candidate)
        # In float64, as a plain floor(n · share) is: float32 would round 100 · 0.29 = 28.999… up to 29.
        budget = (trained.agg.count().double() * self.share).floor().clamp(min=1)
        return (rank >= 0) & (rank < budget)

    def __call__(self, batch: Batch) -> Columns:
        return {"token.weight.covariance": (~self.dropped(batch)).to(batch.dtype)}
