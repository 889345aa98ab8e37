"""Inverse gap weighting (SquareCB): a predictor of rewards becomes a policy that explores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from podium.core.errors import PodiumError

__all__ = [
    "epoch_gamma",
    "greedy_action",
    "inverse_gap_probabilities",
    "practical_gamma",
    "sign_changes",
    "theory_gamma",
]

Array = np.ndarray


def greedy_action(prediction: ArrayLike, available: ArrayLike | None = None, losses: bool = False) -> int:
    """The available action with the best prediction, the first one on ties."""
    score, usable = _scored(prediction, available, losses)
    return int(np.argmax(np.where(usable, score, -np.inf)))


def inverse_gap_probabilities(
    prediction: ArrayLike,
    gamma: float,
    *,
    available: ArrayLike | None = None,
    mu: float | None = None,
    losses: bool = False,
) -> Array:
    """[action] p(a) = 1 / (μ + γ · (f(b) − f(a))) for a ≠ b, and what is left for the best action b.

    With μ = K, the number of available actions and the default, p(b) ≥ 1/K for every γ ≥ 0. A μ below K − 1 may leave
    less than nothing, and is then refused.
    """
    if gamma < 0:
        raise PodiumError(f"gamma must be at least 0, not {gamma}.")
    score, usable = _scored(prediction, available, losses)
    best = int(np.argmax(np.where(usable, score, -np.inf)))
    floor = float(usable.sum()) if mu is None else float(mu)
    others = usable.copy()
    others[best] = False
    p = np.zeros(len(score))
    p[others] = 1.0 / (floor + gamma * (score[best] - score[others]))
    p[best] = 1.0 - p.sum()
    if p[best] < 0:
        raise PodiumError(f"mu = {mu} is too small for {int(usable.sum())} actions: take at least {usable.sum() - 1}.")
    return p


def _scored(prediction: ArrayLike, available: ArrayLike | None, losses: bool) -> tuple[Array, Array]:
    """Predictions of which more is better, and which actions may be taken."""
    score = np.asarray(prediction, dtype=float)
    usable = np.ones(len(score), dtype=bool) if available is None else np.asarray(available, dtype=bool)
    if usable.shape != score.shape:
        raise PodiumError(f"There are {len(score)} predictions but {len(usable)} marks of available actions.")
    if not usable.any():
        raise PodiumError("No action is available.")
    return (-score if losses else score), usable


def theory_gamma(actions: int, rounds: int, square_regret: float, delta: float = 0.05) -> float:
    """γ = sqrt(K · T / (Reg_sq + ln(2/δ))), for which the regret is O(sqrt(K · T · Reg_sq))."""
    return math.sqrt(actions * rounds / (square_regret + math.log(2 / delta)))


def practical_gamma(round: int, scale: float = 10.0, exponent: float = 0.5) -> float:
    """γ_t = scale · t^exponent, as in Vowpal Wabbit."""
    return scale * float(round) ** exponent


def epoch_gamma(actions: int, samples: float, scale: float = 1.0) -> float:
    """γ_m = scale · sqrt(K · n), n samples behind the predictor, which is held fixed within the epoch."""
    return scale * math.sqrt(actions * samples)


def sign_changes(values: Sequence[float]) -> int:
    """How often successive differences change their sign: the oscillation of a sequence of generations."""
    signs = np.sign(np.diff(np.asarray(values, dtype=float)))
    signs = signs[signs != 0]
    return int((signs[1:] != signs[:-1]).sum())
