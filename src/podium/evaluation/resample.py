"""Estimates with intervals, by resampling tasks, and seeds where there are several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Measure", "estimate", "mean", "student"]

Array = NDArray[np.float64]

# Two-sided 95 % quantiles of Student's t.
FREEDOM = (*range(1, 16), 20, 30, 60, 1000)
QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.086, 2.042, 2.000, 1.962),
)


@dataclass(frozen=True)
class Measure:
    """A number with its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        return {"mean": self.mean, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean(sums: Array) -> Array:
    """[draw] the ratio of two summed columns; 0 where there is nothing to divide by."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] != 0)


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t for so many degrees of freedom."""
    return float(np.interp(freedom, FREEDOM, QUANTILES))


def estimate(
    columns: Any,
    value: Callable[[Array], Array] = mean,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    draws: int = 2000,
    seed: int = 0,
) -> Measure:
    """`value` of the sums of [seed, task, column], each row of sums a draw; seeds and tasks are resampled both.

    What is paired stays paired: columns of two models on the same task are drawn together. Few seeds say little of how
    seeds spread, so the interval is stretched by Student's t, with Satterthwaite's degrees of freedom. It reaches as
    far from `value` as draws do from their own mean, since of few seeds or tasks that mean is biased; so it contains
    `value`, and it stays within `bounds`.
    """
    x = np.asarray(columns, dtype=float)
    counts = np.array(x.shape[:2])
    rng = np.random.default_rng(seed)
    # One fewer than there are: so many draws spread as the mean does, also where there are two or three.
    runs, tasks = (rng.multinomial(max(m - 1, 1), np.full(m, 1 / m), size=draws).astype(float) for m in counts)

    def drawn(runs: Array, tasks: Array) -> Array:
        estimates = value(np.einsum("ds,dt,stc->dc", runs, tasks, x, optimize=True))
        return estimates[~np.isnan(estimates)]  # a draw in which it is undefined says nothing

    point = float(value(x.sum((0, 1))[None])[0])
    if np.isnan(point):
        return Measure(np.nan, np.nan, np.nan)
    spread = np.array([drawn(runs, np.ones_like(tasks)).var(), drawn(np.ones_like(runs), tasks).var()])
    freedom = spread.sum() ** 2 / max((spread**2 / np.maximum(counts - 1, 1)).sum(), 1e-300)
    both = drawn(runs, tasks)
    below, above = np.quantile(both, [0.025, 0.975])
    middle = both.mean().clip(below, above)
    stretch = student(freedom) / QUANTILES[-1] if spread.sum() else 1.0
    ends = point - stretch * (middle - below), point + stretch * (above - middle)
    return Measure(point, *(float(np.clip(end, *bounds)) for end in ends))
