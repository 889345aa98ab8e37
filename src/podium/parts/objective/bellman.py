"""Bellman regression of a Q function that is parameterised by the policy's log-ratios."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Term
from podium.parts.objective.importance import NOW

__all__ = ["BellmanRegression"]

OLD = Signal("logp", of="old")
MEAN, OLD_MEAN = Signal("mean_logp", of="now"), Signal("mean_logp", of="old")


class BellmanRegression(Term):
    """Evaluation of the uniform policy: (q_t − y_t)² with the implicit Q function q = rho · (log π − log π_old).

    The target y_t = A + beta · rho · (mu_{t+1} − mu_old,t+1) is a constant. mu is the mean of log π over the vocabulary
    at the next token of the turn: the value of acting uniformly at random there; 0 where no trained token of the turn
    follows.
    """

    reference = "ROVER: Random Policy Valuation is Enough, https://github.com/tinnerhrhe/ROVER"
    overflows = "it squares the distance from the advantage"
    rho: Number = 1.0  # the temperature of the Q function; above 0
    beta: Number = 1.0  # the weight of the next state's value; 0: regression on A alone
    clip: Number | None = None  # beyond log(1 ± clip), q is not pulled further towards its target; None: no clip

    needs = ("token.advantage", NOW, OLD, MEAN, OLD_MEAN)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "rho", 0, open_low=True)
        within(self, "beta", 0)
        within(self, "clip", 0, 0.99, open_low=True, optional=True)

    @property
    def couples(self) -> str:
        return "token" if self.beta == 0 else "rollout"

    def q(self, batch: Batch) -> Tensor:
        """[token] the value of the token that was taken."""
        return self.rho * (batch[NOW] - batch[OLD])

    def next_value(self, batch: Batch) -> Tensor:
        """[token] the value of the next state; 0 where no trained token of the turn follows."""
        value = self.beta * self.rho * (stop_gradient(batch[MEAN]) - batch[OLD_MEAN])
        return batch.shift(value.where(batch.trained("token"), 0), "token", "turn", by=-1)

    def target(self, batch: Batch) -> Tensor:
        """[token] y."""
        return batch["token.advantage"] + self.next_value(batch)

    def loss(self, batch: Batch) -> Tensor:
        q, y = self.q(batch), self.target(batch)
        if self.clip is not None:
            high, low = math.log1p(self.clip), math.log1p(-self.clip)
            q = torch.where((y > q) & (q > high), torch.full_like(q, high), q)
            q = torch.where((y < q) & (q < low), torch.full_like(q, low), q)
        return (q - y).square()

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"q": self.q(batch), "next_value": self.next_value(batch)}
