"""A penalty on token entropies outside a band."""

from __future__ import annotations

from dataclasses import field

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.term import Term
from podium.parts.objective.entropy import entropy_now

__all__ = ["BandPenalty"]

LOW, HIGH, CENTRE = "token.band.low", "token.band.high", "token.band.centre"


class BandPenalty(Term):
    """Entropy-smoothing penalty: penalty · phase where a token's entropy H is not inside (low, high), else 0.

    - `step`: a constant, as published and released: it appears in the loss, but has no gradient;
    - `hinge`: penalty · phase · ((low − H)⁺ + (H − high)⁺) / centre, whose gradient leads back into the band.

    The band is `token.band.low`, `token.band.high` and `token.band.centre`, as `TurnBand` writes them.
    """

    reference = "EPO, https://github.com/WujiangXu/EPO"
    penalty: Number = 0.1  # at least 0
    phase: Number = 1.0  # a factor that a schedule may change over training; at least 0
    kind: str = "step"  # step or hinge
    test: str = "token"  # whose entropy is tested: each token's, or the mean over its turn (turn)
    coefficient: Number = field(default=0.001, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "kind", ("step", "hinge"))
        one_of(self, "test", ("token", "turn"))
        within(self, "penalty", 0)
        within(self, "phase", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (entropy_now(1.0), LOW, HIGH, *((CENTRE,) if self.kind == "hinge" else ()))

    @property
    def couples(self) -> str:
        return "token" if self.test == "token" else "rollout"

    def price(self, batch: Batch) -> Tensor:
        """[token] the penalty."""
        h, low, high = batch[entropy_now(1.0)], batch[LOW], batch[HIGH]
        if self.test == "turn":
            mean = batch.reduce(h, "token", "turn", "mean", where=batch.trained("token"))
            h = batch.spread(mean, "turn", "token")
        if self.kind == "step":
            outside = ((h <= low) | (h >= high)).to(h.dtype)
        else:
            gap = torch.where(h < low, low - h, torch.where(h > high, h - high, torch.zeros_like(h)))
            outside = gap / (batch[CENTRE] + 1e-8)
        return self.penalty * self.phase * outside

    def loss(self, batch: Batch) -> Tensor:
        return self.price(batch)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        h = batch[entropy_now(1.0)]
        return {"band.outside": (h <= batch[LOW]) | (h >= batch[HIGH]), "band.penalty": self.price(batch)}
