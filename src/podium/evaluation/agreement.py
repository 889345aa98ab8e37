"""How well estimated credit agrees with exact credit: sums over steps, and statistics of the sums with intervals."""

from __future__ import annotations

import numpy as np

from podium.evaluation.resample import Array, Measure, estimate, student
from podium.worlds.oracle import Index

__all__ = ["STATISTICS", "ahead", "correlation", "error", "expected", "gradient", "measured", "sign_errors", "sums"]

# The columns of sums: x is the estimate, y the exact advantage, g and h the gradients that they make.
COUNT, X, Y, XX, YY, XY, WRONG, MASS, GG, HH, GH = range(11)


def sums(x: Array, y: Array, task: Index, tasks: int) -> Array:
    """[task, column] sums over the steps of each task, up to those of the gradients.

    `WRONG` is the mass |y| whose sign x has not: half of it where x is 0.
    """
    wrong = np.abs(y) * (1 - np.sign(x) * np.sign(y)) / 2
    columns = (np.ones_like(x), x, y, x * x, y * y, x * y, wrong, np.abs(y))
    return np.stack([np.bincount(task, weights=column, minlength=tasks) for column in columns], axis=1)


def correlation(s: Array) -> Array:
    """[draw] Pearson's correlation over all steps."""
    covariance = s[:, COUNT] * s[:, XY] - s[:, X] * s[:, Y]
    spread = (s[:, COUNT] * s[:, XX] - s[:, X] ** 2) * (s[:, COUNT] * s[:, YY] - s[:, Y] ** 2)
    return _ratio(covariance, np.sqrt(np.maximum(spread, 0.0)))


def sign_errors(s: Array) -> Array:
    """[draw] the share of what is to be credited, Σ |y|, that is pushed the wrong way; 0.5 is a coin."""
    return _ratio(s[:, WRONG], s[:, MASS])


def error(s: Array) -> Array:
    """[draw] min over c ≥ 0 of Σ (c·x − y)² / Σ y²: 0 is exact up to scale, 1 no better than no credit at all."""
    return 1 - _ratio(np.maximum(s[:, XY], 0.0) ** 2, s[:, XX] * s[:, YY], empty=0.0)


def gradient(s: Array) -> Array:
    """[draw] the cosine between the gradient that a group of rollouts gives and the exact one."""
    return _ratio(s[:, GH], np.sqrt(s[:, GG] * s[:, HH]))


STATISTICS = {
    "correlation": (correlation, (-1.0, 1.0)),
    "sign errors": (sign_errors, (0.0, 1.0)),
    "error": (error, (0.0, 1.0)),
    "gradient": (gradient, (-1.0, 1.0)),
}


def measured(columns: Array, name: str) -> Measure:
    """A statistic of [seed, task, column], with an interval over seeds and tasks."""
    value, bounds = STATISTICS[name]
    return estimate(columns, value, bounds=bounds)


def ahead(columns: Array, first: Array, name: str) -> Measure:
    """By how much a statistic is higher than that of another estimator on the same rollouts: paired in every draw."""
    value, width = STATISTICS[name][0], columns.shape[-1]
    both = np.concatenate([columns, first], axis=-1)
    return estimate(both, lambda s: value(s[:, :width]) - value(s[:, width:]))


def expected(gradients: Array, exact: Array) -> Measure:
    """The cosine between the mean gradient over endlessly many groups and the exact one: 1 is unbiased up to scale.

    `gradients` are [seed, parameter]. The squared length of the mean is estimated from products of different seeds,
    which noise does not lengthen; the interval is the jackknife's over seeds.
    """
    seeds = len(gradients)
    if seeds < 3:
        return Measure(np.nan, np.nan, np.nan)
    along = gradients @ exact  # [seed]
    own = (gradients**2).sum(1)
    total = gradients.sum(0)

    def cosine(count: int, along: Array, total: Array, own: Array) -> Array:
        squared = (total - own) / (count * (count - 1))
        return _ratio(along / count, np.sqrt(np.maximum(squared, 0.0) * (exact @ exact)))

    whole = total @ total
    point = cosine(seeds, along.sum()[None], whole[None], own.sum()[None])[0]
    without = cosine(seeds - 1, along.sum() - along, whole - 2 * gradients @ total + own, own.sum() - own)
    spread = np.sqrt((seeds - 1) * ((without - without.mean()) ** 2).mean())
    reach = student(seeds - 1) * spread
    low, mean, high = np.clip([point - reach, point, point + reach], -1.0, 1.0)
    return Measure(float(mean), float(low), float(high))


def _ratio(top: Array, bottom: Array, empty: float = np.nan) -> Array:
    """top / bottom; where there is nothing to divide by, `empty`: undefined is not zero."""
    return np.divide(top, bottom, out=np.full(len(top), empty), where=bottom > 0)
