"""Entropy-aware updates: the entropy change of a token's update, predicted from its probability and entropy."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Columns, Need, Shape, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.parts.shape.scores import Tokens, discriminator

__all__ = ["DropDisruptive", "SpareEntropy"]

NOW, OLD, ENTROPY = Signal("logp", of="now"), Signal("logp", of="old"), Signal("entropy", of="old")


class SpareEntropy(Shape):
    """Entropy-stabilising weights: the more a token's update would change the entropy, the smaller its weight w.

    The predicted change is m = |A / q · p (1 − p)(log p + H)|, with p of the current policy, q and H of the old one.
    With extremes over the trained tokens of the update,

    - `linear`: w = high − (high − low)(m − min m)/(max m − min m), the midpoint where all m are equal;
    - `exponential`: w = max(exp(ln(low) · m / max(max m, 0.02)), low).
    """

    reference = "STEER, https://github.com/zz-haooo/STEER"
    low: Number = 0.8  # the weight of the token with the largest m, > 0
    high: Number = 1.2  # the weight of the token with the smallest m, in the linear mapping
    mapping: str = "linear"  # linear or exponential

    needs = ("token.advantage", NOW, OLD, ENTROPY)
    provides = ("token.weight.entropy",)

    def __post_init__(self) -> None:
        one_of(self, "mapping", ("linear", "exponential"))
        within(self, "low", 0, 1, open_low=True)
        within(self, "high", 0)
        if isinstance(self.low, float) and isinstance(self.high, float) and self.high < self.low:
            raise PodiumError(f"SpareEntropy.high = {self.high} is below low = {self.low}.")

    def change(self, batch: Batch) -> Tensor:
        """[token] m."""
        p = stop_gradient(batch[NOW]).exp().clamp(1e-8, 1 - 1e-8)
        q = batch[OLD].exp().clamp(1e-8, 1)
        rest = (1 - p).clamp(min=1e-8)  # 1 − 1e-8 is 1 in float32
        m = (batch["token.advantage"] / q * p * rest * (p.log() + batch[ENTROPY])).abs()
        return m.where(m.isfinite(), 0)

    def __call__(self, batch: Batch) -> Columns:
        m = self.change(batch)
        low, high = float(self.low), float(self.high)
        trained = batch.partition("token", "batch")
        least, most = (f(m, batch.trained("token")) for f in (trained.min, trained.max))
        if self.mapping == "linear":
            spread = (most - least).where(most > least, 1)
            weight = (high - (m - least) * (high - low) / spread).clamp(low, high).where(most > least, (low + high) / 2)
        else:
            weight = (math.log(low) / most.clamp(min=0.02) * m).exp().clamp(low, 1)
        return {"token.weight.entropy": weight}


class DropDisruptive(Shape):
    """Entropy-preserving clipping: mask tokens of negative advantage whose update would change the entropy most.

    S = p (log p + H): raising the token's logit by ε changes the entropy by −ε S. E_S is its mean under the policy.
    Masked tokens leave the denominator, too.

    - `batch`: A < 0 and S − mean S < −mu · std S, over the trained tokens;
    - `vocabulary`: A ≤ 0 and E_S − S > mu · std(E_S − S); of those with A < 0 only the largest differences, at most
      the share `at_most` of all tokens and at least one token.
    """

    reference = "On the Entropy Dynamics in Reinforcement Fine-Tuning, https://github.com/agentscope-ai/Trinity-RFT"
    mu: Number = 2.5  # standard deviations
    norm: str = "batch"  # batch (Clip_B) or vocabulary (Clip_V)
    at_most: Number = 1e-4  # the largest share of the tokens that `vocabulary` masks

    provides = ("token.keep.disruptive",)

    def __post_init__(self) -> None:
        within(self, "mu", 0)
        one_of(self, "norm", ("batch", "vocabulary"))
        within(self, "at_most", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        mean = (Signal("expected_discriminator", of="old"),) if self.norm == "vocabulary" else ()
        return ("token.advantage", OLD, ENTROPY, *mean)

    def dropped(self, batch: Batch) -> Tensor:
        """[token] which tokens are masked."""
        a, s = batch["token.advantage"], discriminator(Tokens(batch, "old"))
        trained = batch.by("token", where=batch.trained("token"))
        if self.norm == "batch":
            spread = trained.std(s, unbiased=False)
            low = trained.centre(s) < -float(self.mu) * spread
            return (a < 0) & low & (spread >= 1e-12) & batch.trained("token")
        d = batch[Signal("expected_discriminator", of="old")] - s
        spread = trained.std(d, unbiased=False)
        dropped = (a <= 0) & (d > float(self.mu) * spread) & (spread >= 1e-12) & batch.trained("token")
        limit = (trained.agg.count().double() * float(self.at_most)).floor().clamp(min=1)
        rank = trained.rank(-d, where=dropped & (a < 0))
        return dropped & ((a == 0) | (rank < limit))

    def __call__(self, batch: Batch) -> Columns:
        return {"token.keep.disruptive": torch.logical_not(self.dropped(batch))}
