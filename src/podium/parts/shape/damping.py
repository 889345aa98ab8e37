"""Smaller steps where clipping removes much of the gradient."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.errors import within
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Aggregate
from podium.parts.objective.clip import Bounds, clipped_surrogate
from podium.parts.objective.surrogate import PolicyGradient

__all__ = ["DampClipped"]

MEAN = Aggregate("token mean, rollout mean")


class DampClipped(Shape):
    """Clipping-bias correction: A ← A / max(c, floor), c the norm of the gradient that clipping removes.

    c² = Σ over the clipped tokens of (r · A / (|y| · B))², with |y| the tokens of a rollout and B the rollouts of the
    update, so far off-policy updates are damped. Nothing changes where c = 0; with a floor of at least 1 no advantage
    grows.
    """

    reference = "ST-PPO: Stabilized Off-Policy Proximal Policy Optimization"
    ratio: str = "turn"  # token, turn or sequence: as in PolicyGradient
    clip: Bounds = Bounds(0.2, 0.2)  # the bounds of the objective's clip
    floor: Number = 1.0  # the smallest divisor; above 0

    provides = ("token.advantage", "batch.clip_bias")

    def __post_init__(self) -> None:
        within(self, "floor", 0, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", Signal("logp", of="now"), Signal("logp", of="old"), *self.clip.needs())

    def ratios(self, batch: Batch) -> Tensor:
        """[token] r."""
        return PolicyGradient(self.ratio).log_ratio(batch).exp().detach()

    def clipped(self, batch: Batch) -> Tensor:
        """[token] where the clip removes the gradient: clip(r) · A < r · A."""
        a, r, (low, high) = batch["token.advantage"], self.ratios(batch), self.clip.bounds(batch)
        return (clipped_surrogate(r, a, low, high) > -a * r) & batch.trained("token")

    def removed(self, batch: Batch) -> Tensor:
        """[batch] c."""
        share = MEAN.coefficients(batch, batch.trained("token"))
        lost = share * self.ratios(batch) * batch["token.advantage"]
        tokens, clipped = batch.partition("token", "batch").agg, self.clipped(batch)
        return overflow_safe(lambda wide: tokens.sum(wide.square(), clipped).sqrt(), lost)

    def scale(self, batch: Batch) -> Tensor:
        """[batch] the factor of the advantages."""
        c = self.removed(batch)
        return (1 / c.clamp(min=float(self.floor))).where(c > 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        scale = batch.spread(self.scale(batch), "batch", "token")
        return {"token.advantage": batch["token.advantage"] * scale, "batch.clip_bias": self.removed(batch)}
