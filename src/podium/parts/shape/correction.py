"""Importance weights for the mismatch between the sampler's distribution and the trained policy."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["SamplerCorrection"]

OLD, SAMPLER = Signal("logp", of="old"), Signal("logp", of="sampler")
CLAMP = 20.0  # log-weights are clamped to ± this


class SamplerCorrection(Shape):
    """Truncated importance sampling: w = π_old / π_sampler of each token or sequence, clipped to [low, cap] or masked.

    Equal policies give 1. Both are the whole distribution at the sampling temperature, also where top-p or top-k let
    only a part of it be drawn. A token that was not sampled (a demonstration, an observation) has the weight 1.
    """

    reference = "Truncated importance sampling, https://fengyao.notion.site/off-policy-rl; IcePop, arXiv:2510.18855"
    level: str = "token"  # token, or sequence: the product over the trained tokens of a rollout
    outside: str = "truncate"  # weights beyond the bounds: truncate to them, or mask (weight 0)
    cap: Number = 2.0  # the largest weight, at least 1; inf: no bound
    low: Number = 0.0  # the smallest weight, in [0, 1]

    needs = (OLD, SAMPLER)
    provides = ("token.weight.importance",)

    def __post_init__(self) -> None:
        one_of(self, "level", ("token", "sequence"))
        one_of(self, "outside", ("truncate", "mask"))
        within(self, "low", 0, 1)
        within(self, "cap", 1)

    @classmethod
    def icepop(cls, low: float = 0.5, cap: float = 2.0) -> SamplerCorrection:
        """IcePop: tokens whose weight is outside the band are masked."""
        return cls(outside="mask", low=low, cap=cap)

    def weights(self, batch: Batch) -> Tensor:
        """[token] w before any bound."""
        difference = (batch[OLD] - batch[SAMPLER]).where(batch.drawn, 0)
        if self.level == "sequence":
            total = batch.reduce(difference, "token", "rollout", "sum", where=batch.trained("token"))
            difference = batch.spread(total, "rollout", "token").where(batch.drawn, 0)
        return difference.clamp(-CLAMP, CLAMP).exp()

    def __call__(self, batch: Batch) -> Columns:
        w = self.weights(batch)
        bounded = w.clamp(self.low, self.cap)
        return {"token.weight.importance": bounded if self.outside == "truncate" else w.where(w == bounded, 0)}
