"""Estimates with intervals, by resampling tasks, and seeds where there are several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Measure", "estimate", "mean"]

Array = NDArray[np.float64]


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


def estimate(
    columns: Any, value: Callable[[Array], Array] = mean, *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> Measure:
    """`value` of the sums of [seed, task, column], each row of sums a draw; seeds and tasks are resampled both.

    What is paired stays paired: columns of two models on the same task are drawn together.
    """
    x = np.asarray(columns, dtype=float)
    seeds, tasks, _ = x.shape
    rng = np.random.default_rng(seed)
    # One fewer than there are: so many draws spread as the mean does, also where there are two or three seeds.
    times = [rng.multinomial(max(m - 1, 1), np.full(m, 1 / m), size=draws).astype(float) for m in (seeds, tasks)]
    drawn = value(np.einsum("ds,dt,stc->dc", *times, x, optimize=True))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Measure(float(value(x.sum((0, 1))[None])[0]), float(low), float(high))
