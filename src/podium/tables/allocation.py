"""Spending a budget over groups by their predicted learning curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from podium.core.errors import PodiumError

__all__ = ["Allocation", "PowerLaw", "fit_power_law", "greedy_allocation", "marginal_gains"]

Array = np.ndarray


@dataclass(frozen=True)
class PowerLaw:
    """The error of a group with n samples: e(n) = floor + scale · n^(−exponent)."""

    floor: float
    scale: float
    exponent: float

    def __call__(self, n: float) -> float:
        return self.floor + self.scale * float(n) ** -self.exponent


def fit_power_law(n: ArrayLike, error: ArrayLike) -> PowerLaw:
    """Least squares on pairs of size and error. With fewer than three sizes the floor is 0, and scale and exponent come
    from a line through the logarithms. A curve that rises is taken for a flat one."""
    x, y = np.asarray(n, dtype=float), np.maximum(np.asarray(error, dtype=float), 1e-12)
    if not len(x) or len(x) != len(y):
        raise PodiumError(f"A learning curve needs pairs of a size and an error; got {len(x)} sizes, {len(y)} errors.")
    if len(np.unique(x)) == 1:
        return PowerLaw(float(y.mean()), 0.0, 1.0)
    slope, intercept = np.polyfit(np.log(x), np.log(y), 1)
    if slope >= 0:
        return PowerLaw(float(y.mean()), 0.0, 1.0)
    if len(np.unique(x)) < 3:
        return PowerLaw(0.0, float(np.exp(intercept)), float(-slope))
    # For a given exponent the best floor and scale are a linear fit: only the exponent is searched.
    best: tuple[float, PowerLaw] | None = None
    for exponent in np.geomspace(0.05, 3.0, 120):
        law = _linear(x, y, float(exponent))
        miss = float(((law.floor + law.scale * x**-law.exponent - y) ** 2).sum())
        if best is None or miss < best[0]:
            best = (miss, law)
    assert best is not None
    return best[1]


def _linear(x: Array, y: Array, exponent: float) -> PowerLaw:
    """The floor and scale, neither below 0, that fit best with an exponent."""
    basis = x**-exponent
    scale, floor = np.polyfit(basis, y, 1)
    if floor < 0:
        scale, floor = float((basis * y).sum() / (basis**2).sum()), 0.0
    return PowerLaw(float(floor), float(scale), exponent) if scale > 0 else PowerLaw(float(y.mean()), 0.0, exponent)


def marginal_gains(
    curves: Sequence[Callable[[float], float]], counts: ArrayLike, cost: ArrayLike, weight: ArrayLike, step: float
) -> Array:
    """[group] w · (e(n) − e(n + s)) / (cost · s): what the next step improves per unit of cost."""
    n, price, w = (np.asarray(x, dtype=float) for x in (counts, cost, weight))
    drop = np.array([curve(m) - curve(m + step) for curve, m in zip(curves, n, strict=True)])
    return w * drop / (price * step)


@dataclass(frozen=True)
class Allocation:
    """What was bought, in its order, and what that leaves."""

    order: tuple[int, ...]
    counts: Array
    budget_left: float
    error: Array


def greedy_allocation(
    curves: Sequence[Callable[[float], float]],
    counts: ArrayLike,
    cost: ArrayLike,
    weight: ArrayLike,
    *,
    budget: float,
    step: float = 1,
) -> Allocation:
    """Buy a step of the group with the largest gain per cost, the first on ties, while one is affordable. For convex
    curves that minimises Σ w · e(n), up to rounding. A group whose curve is flat gets nothing."""
    n, price = np.asarray(counts, dtype=float).copy(), np.asarray(cost, dtype=float)
    left = float(budget)
    order: list[int] = []
    while True:
        gains = marginal_gains(curves, n, price, weight, step)
        gains = np.where((price * step <= left + 1e-9) & (gains > 0), gains, -np.inf)
        best = int(np.argmax(gains))
        if gains[best] == -np.inf:
            return Allocation(tuple(order), n, left, np.array([c(m) for c, m in zip(curves, n, strict=True)]))
        order.append(best)
        n[best] += step
        left -= price[best] * step
