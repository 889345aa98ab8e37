"""Yes or no with a probability p = σ(log-odds), held within [1e-4, 1 − 1e-4] so that no logarithm is infinite."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

__all__ = ["CERTAIN", "bernoulli_entropy", "bernoulli_kl", "bernoulli_logp"]

CERTAIN = 9.21024036697585  # log((1 − 1e-4) / 1e-4)


def bernoulli_logp(log_odds: Tensor, taken: Tensor) -> Tensor:
    """log p where it was yes, log(1 − p) where it was no."""
    held = log_odds.clamp(-CERTAIN, CERTAIN)
    return logsigmoid(torch.where(taken.bool(), held, -held))


def bernoulli_kl(log_odds: Tensor, other: Tensor) -> Tensor:
    """KL(p ‖ q) = p log(p / q) + (1 − p) log((1 − p) / (1 − q)), from the log-odds of both."""
    a, b = log_odds.clamp(-CERTAIN, CERTAIN), other.clamp(-CERTAIN, CERTAIN)
    yes, no = logsigmoid(a) - logsigmoid(b), logsigmoid(-a) - logsigmoid(-b)
    return torch.sigmoid(a) * yes + torch.sigmoid(-a) * no


def bernoulli_entropy(log_odds: Tensor) -> Tensor:
    """The entropy in nats."""
    held = log_odds.clamp(-CERTAIN, CERTAIN)
    return -(torch.sigmoid(held) * logsigmoid(held) + torch.sigmoid(-held) * logsigmoid(-held))
