"""How well estimated credit agrees with exact credit: sums over steps, and statistics of the sums with intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from podium.evaluation.resample import Array, Measure, estimate, student
from podium.worlds.oracle import Index

__all__ = [
    *("STATISTICS", "ahead", "correlation", "error", "expected", "gradient", "measured", "sign_errors", "sums"),
    "variance",
]

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
    (value, (least, most)), width = STATISTICS[name], columns.shape[-1]
    both = np.concatenate([columns, first], axis=-1)
    bounds = least - most, most - least
    return estimate(both, lambda s: value(s[:, :width]) - value(s[:, width:]), bounds=bounds)


def expected(gradients: Array, exact: Array) -> Measure:
    """The cosine between the mean gradient over endlessly many groups and the exact one: 1 is unbiased up to scale.

    `gradients` are [seed, parameter]; the interval is the jackknife's over seeds.
    """
    along = gradients @ exact  # [seed]

    def cosine(chosen: Array, squared: Array, own: Array) -> Array:
        return _ratio(chosen @ along / chosen.sum(1), np.sqrt(np.maximum(squared, 0.0) * (exact @ exact)))

    cosines = _over_seeds(gradients, cosine)
    low, mean, high = np.clip([cosines.low, cosines.mean, cosines.high], -1.0, 1.0)
    return Measure(float(mean), float(low), float(high))


def variance(gradients: Array) -> Measure:
    """E |g − E g|² / |E g|² of the gradient that a group gives: how much longer its noise is than what it says.

    So many groups have to be averaged until noise and mean are equally long. The interval is the jackknife's over
    seeds, of the logarithm.
    """

    def ratio(chosen: Array, squared: Array, own: Array) -> Array:
        noise = _ratio(own - squared, np.maximum(squared, 0.0))
        return np.log(noise, out=np.full(len(noise), np.nan), where=noise > 0)

    ratios = _over_seeds(gradients, ratio)
    return Measure(*(float(np.exp(x)) for x in (ratios.mean, ratios.low, ratios.high)))


def _over_seeds(gradients: Array, value: Callable[[Array, Array, Array], Array]) -> Measure:
    """`value` of [draw, seed] who enters, [draw] |E g|² and [draw] E |g|²; the interval is the jackknife's over seeds.

    |E g|² is estimated from products of different seeds, which noise does not lengthen.
    """
    seeds = len(gradients)
    if seeds < 3:
        return Measure(np.nan, np.nan, np.nan)
    chosen = np.vstack([np.ones(seeds), 1 - np.eye(seeds)])  # all, then all but one
    count, products = chosen.sum(1), gradients @ gradients.T
    squares = chosen @ np.diag(products)
    both = np.einsum("ds,st,dt->d", chosen, products, chosen, optimize=True)
    point, *rest = value(chosen, (both - squares) / (count * (count - 1)), squares / count)
    without = np.array(rest)
    reach = student(seeds - 1) * np.sqrt((seeds - 1) * ((without - without.mean()) ** 2).mean())
    if np.isnan(reach):  # what hangs on one seed is not known
        point = np.nan
    return Measure(float(point), float(point - reach), float(point + reach))


def _ratio(top: Array, bottom: Array, empty: float = np.nan) -> Array:
    """top / bottom; where there is nothing to divide by, `empty`: undefined is not zero."""
    return np.divide(top, bottom, out=np.full(len(top), empty), where=bottom > 0)
