"""Group-sequential tests: how much of an error rate each look at growing data may spend.

Looks lie at shares t of all data. Under no effect the statistic √t Z is a Brownian motion at time t, and the bounds c
of the looks are such that the probability of having crossed one of them by t is what the spending function allows
(Lan & DeMets 1983). It is integrated from look to look (Armitage, McPherson & Rowe 1969).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq  # type: ignore[import-untyped]
from scipy.stats import norm  # type: ignore[import-untyped]

from podium.core.errors import PodiumError

__all__ = ["critical_values", "nominal_levels", "obrien_fleming", "pocock", "sequential_p"]

POINTS = 401  # of the grid on which densities are integrated
SMALLEST, HALVINGS = 1e-10, 40  # of a sequential p-value

Spending = Callable[[float, float], float]  # from a share of the data and an error rate to what has been spent


def obrien_fleming(share: float, alpha: float) -> float:
    """Nearly nothing early: 4 − 4 Φ(z_{1−α/4} / √t), half of it in each direction."""
    return float(4 * norm.sf(norm.isf(alpha / 4) / np.sqrt(share)))


def pocock(share: float, alpha: float) -> float:
    """About as much at each look: α ln(1 + (e − 1) t)."""
    return float(alpha * np.log(1 + (np.e - 1) * share))


@lru_cache(maxsize=4096)
def critical_values(shares: tuple[float, ...], alpha: float, spend: Spending = obrien_fleming) -> tuple[float, ...]:
    """The two-sided bounds |Z| of each look at a false-positive rate of α over all of them."""
    if not shares or any(b <= a for a, b in zip((0.0, *shares), shares, strict=False)) or shares[-1] > 1:
        raise PodiumError(f"The shares of the looks, {shares}, must rise from above 0 to at most 1.")
    bounds: list[float] = []
    grid, density, spent, last = np.zeros(1), np.ones(1), 0.0, 0.0  # of the motion, where no bound has been crossed
    weight = np.ones(1)
    for share in shares:
        step = np.sqrt(share - last)
        bounds.append(_bound(grid, density * weight, share, step, spend(share, alpha) - spent))
        edge = bounds[-1] * np.sqrt(share)
        new = np.linspace(-edge, edge, POINTS)
        kernel = norm.pdf((new[:, None] - grid[None, :]) / step) / step
        density, grid = kernel @ (density * weight), new
        weight = (new[1] - new[0]) * _simpson()
        spent, last = spend(share, alpha), share
    return tuple(bounds)


def _bound(grid: np.ndarray, mass: np.ndarray, share: float, step: float, allowed: float) -> float:
    """The bound that a motion with this mass at the look before crosses with the probability that is allowed."""

    def crossed(c: float) -> float:
        b = c * np.sqrt(share)
        return float((mass * (norm.sf((b - grid) / step) + norm.cdf((-b - grid) / step))).sum())

    return float(brentq(lambda c: crossed(c) - allowed, 0.0, 12.0, xtol=1e-10))


def _simpson() -> np.ndarray:
    weights = np.ones(POINTS)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return weights / 3


def nominal_levels(shares: tuple[float, ...], alpha: float, spend: Spending = obrien_fleming) -> tuple[float, ...]:
    """The two-sided p-value below which each look rejects."""
    return tuple(float(2 * norm.sf(c)) for c in critical_values(shares, alpha, spend))


def sequential_p(p: Sequence[float], shares: tuple[float, ...], spend: Spending = obrien_fleming) -> float:
    """The p-value of a test that looked several times: the least α at which one of the looks so far rejects.

    `p` are the two-sided p-values of the looks so far, `shares` those of all that were planned.
    """

    def rejects(alpha: float) -> bool:
        return any(x <= level for x, level in zip(p, nominal_levels(shares, alpha, spend), strict=False))

    if not p or not rejects(0.999):
        return 1.0
    if rejects(SMALLEST):
        return SMALLEST
    low, high = np.log(SMALLEST), np.log(0.999)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rejects(float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))
