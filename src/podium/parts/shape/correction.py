"""What is done about a mismatch between the sampler's distribution and the trained policy: weights, and rejection."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["SamplerCorrection", "SamplerRejection"]

OLD, SAMPLER = Signal("logp", of="old"), Signal("logp", of="sampler")
CLAMP = 20.0  # log-weights are clamped to ± this
LEVELS = ("token", "sequence", "geometric")


def importance(batch: Batch, level: str) -> Tensor:
    """[token] π_old / π_sampler of the token, of its rollout (the product over the trained tokens), or their geometric
    mean."""
    difference = (batch[OLD] - batch[SAMPLER]).where(batch.drawn, 0)
    if level != "token":
        trained = batch.trained("token")
        if level == "sequence":
            whole = batch.reduce(difference, "token", "rollout", "sum", where=trained)
        else:
            whole = batch.reduce(difference, "token", "rollout", "mean", where=trained)
        difference = batch.spread(whole, "rollout", "token").where(batch.drawn, 0)
    return difference.clamp(-CLAMP, CLAMP).exp()


class SamplerCorrection(Shape):
    """Truncated importance sampling: w = π_old / π_sampler of each token or sequence, clipped to [low, cap] or masked.

    Equal policies give 1. Both are the whole distribution at the sampling temperature, also where top-p or top-k let
    only a part of it be drawn. A token that was not sampled (a demonstration, an observation) has the weight 1.
    """

    reference = "Truncated importance sampling, https://fengyao.notion.site/off-policy-rl; IcePop, arXiv:2510.18855"
    level: str = "token"  # token; sequence: the product over the trained tokens of a rollout; geometric: their mean
    outside: str = "truncate"  # weights beyond the bounds: truncate to them, or mask (weight 0)
    cap: Number = 2.0  # the largest weight, at least 1; inf: no bound
    low: Number = 0.0  # the smallest weight, in [0, 1]

    needs = (OLD, SAMPLER)
    provides = ("token.weight.importance",)

    def __post_init__(self) -> None:
        one_of(self, "level", LEVELS)
        one_of(self, "outside", ("truncate", "mask"))
        within(self, "low", 0, 1)
        within(self, "cap", 1)

    @classmethod
    def icepop(cls, low: float = 0.5, cap: float = 2.0) -> SamplerCorrection:
        """IcePop: tokens whose weight is outside the band are masked."""
        return cls(outside="mask", low=low, cap=cap)

    def weights(self, batch: Batch) -> Tensor:
        """[token] w before any bound."""
        return importance(batch, self.level)

    def __call__(self, batch: Batch) -> Columns:
        w = self.weights(batch)
        bounded = w.clamp(self.low, self.cap)
        return {"token.weight.importance": bounded if self.outside == "truncate" else w.where(w == bounded, 0)}


class SamplerRejection(Shape):
    """Leave out what sampler and trainer disagree on: tokens, or rollouts, with π_old / π_sampler outside [low, cap].

    What is left out counts in no mean, unlike a weight of 0. A rollout with a token whose ratio is below `veto` is left
    out as a whole. Equal policies leave out nothing.
    """

    reference = "Liu et al. 2025, When Speed Kills Stability, https://richardli.xyz/rl-collapse"
    level: str = "geometric"  # token, sequence (the product over a rollout) or geometric (their mean)
    cap: Number = 2.0  # the largest ratio, at least 1; inf: no bound
    low: Number = None  # the smallest ratio, in [0, 1]; None: 1 / cap
    veto: Number = 0.0  # the smallest ratio of any token of a rollout, in [0, 1]

    needs = (OLD, SAMPLER)
    provides = ("token.keep.drift",)

    def __post_init__(self) -> None:
        one_of(self, "level", LEVELS)
        within(self, "cap", 1)
        within(self, "low", 0, 1, optional=True)
        within(self, "veto", 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        ratio, low = importance(batch, self.level), 1 / self.cap if self.low is None else self.low
        least = batch.reduce(importance(batch, "token"), "token", "rollout", "min", where=batch.trained("token"))
        sound = (ratio >= low) & (ratio <= self.cap)
        return {"token.keep.drift": sound & batch.spread(least >= self.veto, "rollout", "token")}
