"""Learning from one-sided feedback: labels are seen of what was accepted, and a panel reports unfair pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "capped_counts",
    "exponential_weights",
    "hypothesis_losses",
    "one_sided_estimates",
    "panel_fractions",
    "perturbed_losses",
    "reported_pair",
    "surrogate_losses",
    "zero_one_losses",
    "OneSidedRound",
    "exp2_round",
]

Array = np.ndarray
Pair = tuple[int, int]


def zero_one_losses(accepted: ArrayLike, label: ArrayLike) -> Array:
    """[item] 1 where the decision is not the label."""
    return (np.asarray(accepted) != np.asarray(label)).astype(float)


def surrogate_losses(accepted: ArrayLike, label: Sequence[float | None]) -> Array:
    """[item] 1 − y for what was accepted and one half for what was rejected, whose label is never read.

    Differences between decisions are half of those of the zero-one loss."""
    return np.array([1.0 - float(y or 0) if a else 0.5 for a, y in zip(np.asarray(accepted), label, strict=True)])


def exponential_weights(cumulative: ArrayLike, eta: float) -> Array:
    """[hypothesis] w ∝ exp(−η · L)."""
    loss = np.asarray(cumulative, dtype=float)
    w = np.exp(-eta * (loss - loss.min()))
    return w / w.sum()


def panel_fractions(policy: ArrayLike, distance: ArrayLike, alpha: float) -> Array:
    """[item, item] the share of auditors for whom π(i) − π(l) > d(i, l) + α; `distance` is [auditor, item, item]."""
    p = np.asarray(policy, dtype=float)
    return ((p[:, None] - p[None, :]) > np.asarray(distance, dtype=float) + alpha).mean(0)


def reported_pair(fractions: ArrayLike, panel_fraction: float) -> Pair | None:
    """The first pair, row by row, that at least this share of the auditors flags; None if there is none."""
    flagged = np.argwhere((np.asarray(fractions) >= panel_fraction) & (np.asarray(fractions) > 0))
    return (int(flagged[0, 0]), int(flagged[0, 1])) if len(flagged) else None


def one_sided_estimates(accepted: ArrayLike, label: Sequence[float | None], policy: ArrayLike) -> tuple[Array, Array]:
    """[item] unbiased estimates of the surrogate losses of accepting and of rejecting: 1[accepted] (1 − y) / q and
    1[rejected] ½ / (1 − q)."""
    taken, q = np.asarray(accepted, dtype=bool), np.asarray(policy, dtype=float)
    loss = surrogate_losses(taken, label)
    return (
        np.divide(loss, q, out=np.zeros_like(q), where=taken),
        np.divide(loss, 1.0 - q, out=np.zeros_like(q), where=~taken),
    )


def hypothesis_losses(
    predictions: ArrayLike, accept: ArrayLike, reject: ArrayLike, pair: Pair | None, weight: float
) -> Array:
    """[hypothesis] Σ_i h(i) · accept(i) + (1 − h(i)) · reject(i) + λ (h(i) − h(l)) for the reported pair (i, l);
    `predictions` is [hypothesis, item]."""
    h = np.asarray(predictions, dtype=float)
    loss = h @ np.asarray(accept, dtype=float) + (1.0 - h) @ np.asarray(reject, dtype=float)
    return loss if pair is None else loss + weight * (h[:, pair[0]] - h[:, pair[1]])


@dataclass(frozen=True)
class OneSidedRound:
    """One round of Exp2: what was believed, what the panel said, and what was learned."""

    weights: Array  # [hypothesis]
    policy: Array  # [item] the probability of acceptance
    fractions: Array  # [item, item]
    pair: Pair | None
    surrogate: Array  # [item]
    accept: Array  # [item]
    reject: Array  # [item]
    loss: Array  # [hypothesis]
    cumulative: Array  # [hypothesis]


def exp2_round(
    predictions: ArrayLike,
    cumulative: ArrayLike,
    played: int,
    label: Sequence[float | None],
    distance: ArrayLike,
    *,
    eta: float,
    weight: float,
    alpha: float,
    panel_fraction: float,
) -> OneSidedRound:
    """A round in which the hypothesis `played`, drawn by the weights, decides. `label` is read where it accepts."""
    h = np.asarray(predictions, dtype=float)
    w = exponential_weights(cumulative, eta)
    policy = w @ h
    fractions = panel_fractions(policy, distance, alpha)
    pair = reported_pair(fractions, panel_fraction)
    accept, reject = one_sided_estimates(h[played] > 0, label, policy)
    loss = hypothesis_losses(h, accept, reject, pair, weight)
    surrogate = surrogate_losses(h[played] > 0, label)
    total = np.asarray(cumulative, dtype=float) + loss
    return OneSidedRound(w, policy, fractions, pair, surrogate, accept, reject, loss, total)


def perturbed_losses(
    history: ArrayLike, estimate: ArrayLike, perturbation_predictions: ArrayLike, perturbation: ArrayLike
) -> Array:
    """[hypothesis] follow the perturbed leader: Σ_past loss · h + Σ_j ξ_j · h(z_j). `history` is [hypothesis, round,
    item], `estimate` the difference of the losses of accepting and rejecting, [round, item]."""
    past = np.einsum("hti,ti->h", np.asarray(history, dtype=float), np.asarray(estimate, dtype=float))
    return past + np.asarray(perturbation_predictions, dtype=float) @ np.asarray(perturbation, dtype=float)


def capped_counts(redraws: ArrayLike, cap: int) -> Array:
    """Geometric resampling: the number of redraws until the played bit shows again estimates 1/q; capped at M it is
    too small by a share of at most (1 − q)^M."""
    return np.minimum(np.asarray(redraws), cap)
