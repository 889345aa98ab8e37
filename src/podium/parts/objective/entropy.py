"""Entropy regularisation: bonuses, bands and targets."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Term
from podium.parts.objective.importance import NOW

__all__ = ["CovarianceEntropy", "Entropy", "EntropyTarget"]


def entropy_now(top_p: float) -> Signal:
    """The current entropy with its gradient, of the whole distribution or of its nucleus."""
    settings: dict[str, Any] = {} if top_p == 1.0 else {"top_p": top_p}
    return Signal("entropy", of="now", grad=True, **settings)


class Entropy(Term):
    """Entropy bonus −H at each trained token; with bounds, the penalty (H − high)⁺ + (low − H)⁺ instead.

    Each bound is a number or the name of a column, and may be left out.
    """

    low: Number | str | None = None  # nats
    high: Number | str | None = None  # nats
    top_p: float = 1.0  # the entropy is that of the nucleus with this mass; 1: of the whole distribution
    coefficient: Number = field(default=0.001, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "top_p", 0, 1, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (entropy_now(self.top_p), *(b for b in (self.low, self.high) if isinstance(b, str)))

    def loss(self, batch: Batch) -> Tensor:
        h = batch[entropy_now(self.top_p)]
        if self.low is None and self.high is None:
            return -h
        outside = torch.zeros_like(h)
        if self.high is not None:
            outside = outside + (h - self._bound(batch, self.high)).clamp(min=0)
        if self.low is not None:
            outside = outside + (self._bound(batch, self.low) - h).clamp(min=0)
        return outside

    def _bound(self, batch: Batch, bound: Number | str) -> Tensor | float:
        return batch.spread_column(bound) if isinstance(bound, str) else float(bound)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"entropy.trained": batch[entropy_now(self.top_p)]}


class EntropyTarget(Term):
    """Entropy target: (H̄ − H*)² or |H̄ − H*| for the mean entropy H̄ of the update, taken as `aggregate` says.

    There is no loss without trained tokens, nor while the target is unknown (below 0).
    """

    level = "batch"
    target: Number = 0.5  # H*, nats; below 0: not known yet
    distance: str = "square"  # square or abs
    top_p: float = 1.0  # as in Entropy

    def __post_init__(self) -> None:
        one_of(self, "over", ("where", "all"))
        one_of(self, "distance", ("square", "abs"))
        within(self, "top_p", 0, 1, open_low=True)
        if self.aggregate.steps()[0][0] != "token":
            raise PodiumError(f"EntropyTarget.aggregate = {self.aggregate.path!r} must start with the tokens.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (entropy_now(self.top_p),)

    @property
    def couples(self) -> str:
        return "update"

    def tokens(self, batch: Batch) -> Tensor:
        """[token] whose entropies are averaged."""
        trained = batch.trained("token")
        return trained if self.where is None else trained & self._chosen(batch, self.where, "token")

    def members(self, batch: Batch) -> Tensor:
        return self.tokens(batch).any().reshape(1)

    def coefficients(self, batch: Batch) -> Tensor:
        return float(self.coefficient) * self.members(batch).to(batch.dtype)

    def mean_entropy(self, batch: Batch) -> Tensor:
        """H̄."""
        tokens = self.tokens(batch)
        c = self.aggregate.coefficients(batch, tokens if self.over == "where" else batch.trained("token"))
        if self.weight is not None:  # of the entropies: the update has one loss
            c = c * self._weighed(batch, self.weight, "token")
        return (c * batch[entropy_now(self.top_p)]).where(tokens, 0).sum()

    def loss(self, batch: Batch) -> Tensor:
        mean, target = self.mean_entropy(batch), float(self.target)
        gap = mean - (stop_gradient(mean) if target < 0 else target)
        pull = gap.square() if self.distance == "square" else gap.abs()
        return pull.reshape(1)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"entropy.mean": self.mean_entropy(batch).reshape(1)}


class CovarianceEntropy(Term):
    """Covariance-weighted entropy bonus −κ_t H_t, largest where log π and the advantage vary together.

    c_t = (A_t − mean A)(log π_t − mean log π), means over the trained tokens; ω = softmax of c over the tokens of a
    rollout; κ = clamp(scale · ω, 0, cap). The gradient flows through H and through ω.
    """

    reference = "Light-IF, https://github.com/Qihoo360/Light-IF"
    scale: Number = 10.0  # of the softmax weights
    cap: Number = 5.0  # the largest κ

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "scale", 0)
        within(self, "cap", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", NOW, entropy_now(1.0))

    @property
    def couples(self) -> str:
        return "update"

    def weights(self, batch: Batch) -> Tensor:
        """[token] κ."""
        logp, trained = batch[NOW], batch.trained("token")
        everyone, rollouts = batch.partition("token", "batch"), batch.partition("token", "rollout")
        c = everyone.centre(batch["token.advantage"], trained) * (logp - everyone.mean(stop_gradient(logp), trained))
        return (self.scale * rollouts.softmax(c, trained)).clamp(0, float(self.cap))

    def loss(self, batch: Batch) -> Tensor:
        return -self.weights(batch) * batch[entropy_now(1.0)]

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"entropy.coefficient": self.weights(batch), "entropy.trained": batch[entropy_now(1.0)]}
