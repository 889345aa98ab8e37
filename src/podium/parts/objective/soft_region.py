"""Trust regions without a clip of the ratio: a soft gate, and a mask by how far the distribution has moved."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import stop_gradient
from podium.core.schedule import Number
from podium.parts.objective.clip import Limits, TrustRegion

__all__ = ["DivergenceMask", "SoftGate"]

TINY = 1e-8  # keeps the logarithm of 1 − p finite


class SoftGate(TrustRegion):
    """A sigmoid in place of the clip: −A · (4 / τ) · σ(τ (r − 1)), with τ by the sign of A.

    At r = 1 the gradient is that of −A · r; further away it fades, as sech²(τ (r − 1) / 2), and never becomes 0.
    """

    positive: Number = 1.0  # τ where A > 0, above 0
    negative: Number = 1.05  # τ elsewhere, above 0; larger: the gradient fades sooner

    def __post_init__(self) -> None:
        within(self, "positive", 0, open_low=True)
        within(self, "negative", 0, open_low=True)

    def temperature(self, advantage: Tensor) -> Tensor:
        """[token] τ."""
        tau = torch.full_like(advantage, float(self.negative))
        return tau.masked_fill(advantage > 0, float(self.positive))

    def loss(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor, limits: Limits) -> Tensor:
        r, tau = log_ratio.clamp(*limits).exp(), self.temperature(advantage)
        return -advantage * torch.sigmoid(tau * (r - 1)) * 4 / tau

    def diagnostics(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor) -> dict[str, Tensor]:
        s = torch.sigmoid(self.temperature(advantage) * (log_ratio.exp() - 1))
        return {"gate": 4 * s * (1 - s)}  # the share of its gradient that a token keeps


class DivergenceMask(TrustRegion):
    """A mask by the divergence from the old policy: −A · sg[min(r, cap)] · log π, and 0 for tokens that went too far.

    The divergence is that of the sampled token against all others: the total variation |p − p_old| (`tv`), or
    KL(p_old ‖ p) of the two-valued distributions (`kl`). A token went too far if it exceeds `high` and its probability
    rose where A > 0, or exceeds `low` and it fell where A ≤ 0. For ratios of tokens.
    """

    kind: str = "tv"  # tv or kl
    low: Number = 0.2  # the largest divergence of tokens whose probability falls, at least 0
    high: Number = 0.2  # that of tokens whose probability rises, at least 0
    cap: Number | None = 20.0  # the largest weight, at least 1; None: no bound

    def __post_init__(self) -> None:
        one_of(self, "kind", ("tv", "kl"))
        within(self, "low", 0)
        within(self, "high", 0)
        within(self, "cap", 1, optional=True)

    def too_far(self, log_ratio: Tensor, advantage: Tensor, now: Tensor) -> Tensor:
        """[token] whether a token is left out."""
        now = stop_gradient(now)
        old = now - stop_gradient(log_ratio)
        p, p_old = now.exp(), old.exp()
        if self.kind == "tv":
            divergence = (p - p_old).abs()
        else:
            others = ((1 - p_old).clamp(min=0) + TINY).log() - ((1 - p).clamp(min=0) + TINY).log()
            divergence = p_old * (old - now) + (1 - p_old) * others
        rising = (advantage > 0) & (p > p_old) & (divergence > self.high)
        return rising | ((advantage <= 0) & (p < p_old) & (divergence > self.low))

    def loss(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor, limits: Limits) -> Tensor:
        weight = stop_gradient(log_ratio.clamp(*limits).exp())
        if self.cap is not None:
            weight = weight.clamp(max=float(self.cap))
        return (-advantage * weight * now).masked_fill(self.too_far(log_ratio, advantage, now), 0)

    def diagnostics(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor) -> dict[str, Tensor]:
        return {"clip_fraction": self.too_far(log_ratio, advantage, now)}
