"""Learning from what users leave behind: feedback of 0 and 1 that is sometimes wrong and mostly not given.

With f in [0, 1] the prediction, r the feedback, o whether there is any and l(f, y) = (f − y)² the loss for a true label
y:

- labels flip with rho_01 = P(r = 0 | y = 1) and rho_10 = P(r = 1 | y = 0), so l is replaced by a surrogate whose mean
  over the flips is l(f, y);
- feedback is given with probability p, so each loss is weighted by o / p, and the mean is over all rows, observed or
  not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = [
    "check_noise",
    "doubly_robust",
    "imputed_loss",
    "inverse_propensity",
    "label_loss",
    "mean_losses",
    "noise_corrected",
    "noise_rates",
]

LEAST = 0.05  # the propensity below which the weight o / p grows no further


def check_noise(rho_01: float, rho_10: float) -> None:
    """Refuse noise rates under which feedback says nothing of the label, or the opposite."""
    if not (rho_01 >= 0 and rho_10 >= 0 and rho_01 + rho_10 < 1):
        raise PodiumError(
            f"Noise rates {rho_01:g} and {rho_10:g}: both must be at least 0, and their sum below 1, or feedback says "
            "nothing of the true label."
        )


def label_loss(f: Tensor, y: Tensor | float) -> Tensor:
    """l(f, y) = (f − y)²."""
    return (f - y).square()


def noise_corrected(f: Tensor, r: Tensor, rho_01: float, rho_10: float) -> Tensor:
    """The loss of noisy feedback r whose mean over the flips is the loss of the true label.

    r = 1: [(1 − rho_10) l(f, 1) − rho_01 l(f, 0)] / (1 − rho_01 − rho_10); r = 0: [(1 − rho_01) l(f, 0) − rho_10
    l(f, 1)] / (1 − rho_01 − rho_10). It may be negative. Without noise it is l(f, r).
    """
    check_noise(rho_01, rho_10)
    one, zero = label_loss(f, 1.0), label_loss(f, 0.0)
    liked = (1 - rho_10) * one - rho_01 * zero
    disliked = (1 - rho_01) * zero - rho_10 * one
    return torch.where(r > 0.5, liked, disliked) / (1 - rho_01 - rho_10)


def inverse_propensity(loss: Tensor, observed: Tensor, propensity: Tensor, least: float = 0.0) -> Tensor:
    """[row] (o / p) · loss, whose mean over all rows is that of the loss over all rows."""
    weight = observed.to(loss.dtype) / propensity.clamp(min=least)
    return (weight * loss).where(observed.bool(), 0)


def doubly_robust(loss: Tensor, observed: Tensor, propensity: Tensor, imputed: Tensor, least: float = 0.0) -> Tensor:
    """[row] e + (o / p) · (loss − e), with e the imputed loss: its mean is right if either p or e is."""
    return imputed + inverse_propensity(loss - imputed, observed, propensity, least)


def imputed_loss(f: Tensor, q: Tensor) -> Tensor:
    """q · l(f, 1) + (1 − q) · l(f, 0): the loss to expect where the label is 1 with probability q."""
    return q * label_loss(f, 1.0) + (1 - q) * label_loss(f, 0.0)


def noise_rates(g: Tensor) -> tuple[float, float]:
    """(rho_01, rho_10) by anchors, from predictions g of the feedback: 1 − max g and min g.

    Some row is taken to be liked for certain, and some to be disliked for certain.
    """
    return 1 - float(g.max()), float(g.min())


def mean_losses(
    f: Tensor, r: Tensor, observed: Tensor, propensity: Tensor, imputed: Tensor, rho_01: float, rho_10: float
) -> dict[str, Tensor]:
    """The loss that each estimator makes of the same rows: `ips` and `dr` are means over all rows, whose expectation is
    the mean of l(f, y); `naive` and `surrogate` are means over the observed ones."""
    loss, seen = noise_corrected(f, r, rho_01, rho_10), observed.bool()
    return {
        "naive": label_loss(f, r)[seen].mean(),
        "surrogate": loss[seen].mean(),
        "ips": inverse_propensity(loss, observed, propensity).mean(),
        "dr": doubly_robust(loss, observed, propensity, imputed).mean(),
    }
