"""Clip bounds and advantages that depend on the entropy of each token."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Shape, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.parts.shape.scores import trained_tokens

__all__ = ["HeterogeneousTokens", "normalised_entropy"]


NOW, OLD, ENTROPY = Signal("logp", of="now"), Signal("logp", of="old"), Signal("entropy", of="now")


def log_entropy(entropy: Tensor) -> Tensor:
    """log H, finite at H = 0."""
    return entropy.clamp(min=1e-8).log()


def pivot_and_spread(batch: Batch, entropy: Tensor, pivot: float) -> tuple[Tensor, Tensor]:
    """[batch] m, the `pivot` quantile (nearest rank) of the trained tokens' log-entropies, and their spread about m."""
    e, tokens = log_entropy(entropy), trained_tokens(batch)
    place = torch.round(pivot * (tokens.agg.count() - 1).clamp(min=0).double())
    m = tokens.agg.sum(e, tokens.rank(e) == tokens.spread(place))
    variance = tokens.agg.mean((e - tokens.spread(m)).square())
    return m, variance.clamp(min=1e-8).sqrt()


def scales(batch: Batch, entropy: Tensor, pivot: float, sign: str = "intended") -> tuple[Tensor, Tensor, Tensor]:
    """[batch] the pivot of the log-entropies, and the slopes above and below it that map them to [−1, 1].

    A side without tokens has the slope 0. In the release the slope below is negative.
    """
    tokens = trained_tokens(batch)
    m, s = pivot_and_spread(batch, entropy, pivot)
    z = (log_entropy(entropy) - tokens.spread(m)) / tokens.spread(s)
    most, least = tokens.agg.max(z), tokens.agg.min(z)
    above = torch.where((most > 0) & most.isfinite(), 1 / (s * most), 0)
    below = torch.where((least < 0) & least.isfinite(), 1 / (s * least), 0)
    return m, above, -below if sign == "intended" else below


def normalised_entropy(batch: Batch, entropy: Tensor, pivot: float, sign: str = "intended") -> Tensor:
    """[token] ĥ in [−1, 1]: log-entropies about the pivot, each side divided by its extreme."""
    m, above, below = (batch.spread(x, "batch", "token") for x in scales(batch, entropy, pivot, sign))
    gap = log_entropy(entropy) - m
    return (gap * torch.where(gap > 0, above, below)).where(batch.trained("token"), 0)


class HeterogeneousTokens(Shape):
    """Entropy-adaptive clip and advantages: wider upwards at uncertain tokens, wider downwards at certain ones.

    With ĥ in [−1, 1] the normalised entropy, the bounds are ε_high (1 + alpha ĥ) where ĥ > 0 and ε_low (1 − alpha ĥ)
    where ĥ ≤ 0. In the neutral zone 1 − ε_low/2 < r < 1 + ε_high/2 certain tokens get A (1 + beta ĥ); outside it
    uncertain ones do. alpha = beta = 0 leaves bounds and advantages as they are.
    """

    reference = "HAPO, https://github.com/starriver030515/HAPO"
    low: Number = 0.2  # ε_low
    high: Number = 0.2  # ε_high
    alpha: Number = 1.0  # how much the entropy widens the bounds
    beta: Number = 1.0  # how much the entropy scales the advantage
    pivot: float = 0.8  # the quantile of the log-entropies at which ĥ = 0
    sign: str = "intended"  # or released: ĥ of certain tokens is positive, so they count as uncertain

    needs = ("token.advantage", NOW, OLD, ENTROPY)
    provides = ("token.clip_low", "token.clip_high", "token.advantage")

    def __post_init__(self) -> None:
        within(self, "low", 0)
        within(self, "high", 0)
        within(self, "pivot", 0, 1)
        one_of(self, "sign", ("intended", "released"))

    def __call__(self, batch: Batch) -> Columns:
        a = batch["token.advantage"]
        h = normalised_entropy(batch, stop_gradient(batch[ENTROPY]), self.pivot, self.sign)
        low = self.low * (1 - self.alpha * h.clamp(max=0))
        high = self.high * (1 + self.alpha * h.clamp(min=0))
        ratio = (stop_gradient(batch[NOW]) - batch[OLD]).clamp(-20, 20).exp()
        neutral = (1 - low / 2 < ratio) & (ratio < 1 + high / 2)
        moved = torch.where(neutral == (h <= 0), a * (1 + self.beta * h), a)
        return {"token.clip_low": low, "token.clip_high": high, "token.advantage": moved}
