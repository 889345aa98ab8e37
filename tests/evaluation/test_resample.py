"""Intervals of few seeds and tasks."""

from __future__ import annotations

import numpy as np
import pytest

from podium.analysis.agreement import STATISTICS, ahead, measured, sums
from podium.evaluation.resample import Array, estimate
from podium.sessions.compare import DIFFERENCES, RATES, comparison_text, interval


def cosine(sums: Array) -> Array:
    """[draw] Of two coordinates: a statistic whose mean over few draws is above its value."""
    return np.abs(sums[:, 0]) / np.maximum(np.hypot(sums[:, 0], sums[:, 1]), 1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_an_interval_contains_its_number_and_stays_in_range_however_few_seeds_there_are(seed: int) -> None:
    columns = np.random.default_rng(seed).normal(size=(2, 2, 2))
    found = estimate(columns, cosine, bounds=(0.0, 1.0))
    assert 0 <= found.low <= found.mean <= found.high <= 1


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_so_do_the_intervals_of_credit(name: str, seeds: int) -> None:
    def one(seed: int) -> Array:
        x, y = np.random.default_rng(seed).normal(size=(2, 12))
        task = np.arange(12) % 3
        of_gradients = [np.bincount(task, weights=w, minlength=3) for w in (x * x, y * y, x * y)]
        return np.concatenate([sums(x, y, task, 3), np.stack(of_gradients, axis=1)], axis=1)

    columns, first = (np.stack([one(seed + start) for seed in range(seeds)]) for start in (0, 10))
    found, lead = measured(columns, name), ahead(columns, first, name)
    least, most = STATISTICS[name][1]
    assert least <= found.low <= found.mean <= found.high <= most
    assert least - most <= lead.low <= lead.mean <= lead.high <= most - least


def test_draws_that_are_biased_do_not_shift_the_interval() -> None:
    """Values 0 and 1 of two seeds: max(mean, ½) is ½; draws of one seed are ½ and 1, so their mean is ¾.

    A draw is of one seed, ½ or 1 with equal chance: quantiles ½ and 1, ¼ to either side of ¾, and Student's t for one
    degree of freedom is 12.706 / 1.962 times the normal one: ½ ± 1.62, within [0, 1].
    """
    found = estimate(np.array([[[0.0, 1.0]], [[1.0, 1.0]]]), lambda s: np.maximum(s[:, 0] / s[:, 1], 0.5))
    assert found.mean == 0.5
    assert (found.low, found.high) == pytest.approx(
        (0.5 - 0.25 * 12.706 / 1.962, 0.5 + 0.25 * 12.706 / 1.962), abs=0.02
    )


def test_the_interval_of_a_pass_rate_over_two_seeds_is_one_of_pass_rates() -> None:
    """0.5 and 0.78: 0.64 ± 12.706 · 0.198 / √2 = ± 1.78, which says that two seeds say nothing."""
    assert interval([0.5, 0.78], RATES) == (0.0, 1.0)
    assert interval([-0.3, 0.4], DIFFERENCES) == (-1.0, 1.0)
    assert comparison_text([0.5, 0.78]) == "[0.000, 1.000]"


def test_seeds_that_agree_have_a_narrow_one() -> None:
    """Mean 0.5, std 0.01, t = 4.303 for two degrees of freedom: ± 4.303 · 0.01 / √3 = ± 0.0248."""
    assert interval([0.49, 0.5, 0.51]) == pytest.approx((0.4752, 0.5248), abs=1e-4)
