"""Clip-Cov: a few tokens of high covariance between log-probability and advantage cause most entropy collapse."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.parts.objective.clip import Clip
from podium.parts.objective.surrogate import PolicyGradient
from podium.parts.shape.scores import Tokens, covariance

__all__ = ["DropCovariant"]

NOW, OLD = Signal("logp", of="now"), Signal("logp", of="old")


class DropCovariant(Shape):
    """Clip-Cov: mask random tokens of high covariance, low < c < high, among those that are not clipped already.

    c = (A − mean A)(log π − mean log π) with means over the trained tokens of the update. Masked tokens have the weight
    0 and stay in the denominator.
    """

    reference = "The Entropy Mechanism of RL for Reasoning Language Models, https://arxiv.org/abs/2505.22617"
    share: Number = 0.0002  # of the trained tokens that is masked, at least one token
    low: Number = 1.0  # covariance
    high: Number = 5.0  # covariance
    clip: Clip = Clip(1.0, 1.0)  # the clip of the objective
    replay: tuple[float, float, float] | None = None  # share, low and high for replayed rollouts; None: the same

    provides = ("token.weight.covariance",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1)
        if self.replay is not None and not 0 <= self.replay[0] <= 1:
            raise PodiumError(f"DropCovariant.replay = {self.replay}: its first number is a share in [0, 1].")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", NOW, OLD, *self.clip.needs(), *(() if self.replay is None else ("group.fresh",)))

    def dropped(self, batch: Batch) -> Tensor:
        """[token] which tokens are masked."""
        if self.replay is None:
            return self._dropped(batch, batch.trained("token"))
        share, low, high = self.replay
        replayed = self.replace(share=share, low=low, high=high, replay=None)
        fresh, trained = batch.spread(batch["group.fresh"], "group", "token"), batch.trained("token")
        return self._dropped(batch, trained & fresh) | replayed._dropped(batch, trained & ~fresh)

    def _dropped(self, batch: Batch, where: Tensor) -> Tensor:
        c, trained = covariance(Tokens(batch, "now")), batch.by("token", where=where)
        watched = PolicyGradient(clip=self.clip).diagnostics(batch)
        clipped = watched["clip_fraction"] | watched.get("dual_clip_fraction", torch.zeros_like(c, dtype=torch.bool))
        candidate = (self.low < c) & (c < self.high) & ~clipped
        rank = trained.rank(batch.random("token", "covariance"), where=candidate)
        # In float64, as a plain floor(n · share) is: float32 would round 100 · 0.29 = 28.999… up to 29.
        budget = (trained.agg.count().double() * self.share).floor().clamp(min=1)
        return (rank >= 0) & (rank < budget)

    def __call__(self, batch: Batch) -> Columns:
        return {"token.weight.covariance": (~self.dropped(batch)).to(batch.dtype)}
