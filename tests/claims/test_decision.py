"""Looks, corrections and verdicts, against published numbers and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.claims.decision import (
    LOOKS,
    PairedEvidence,
    benjamini_hochberg,
    decide,
    holm,
    one_sided_p,
    paired_evidence,
    settled,
)
from podium.claims.spending import critical_values, nominal_levels, obrien_fleming, pocock, sequential_p
from podium.core.errors import PodiumError

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)


@pytest.mark.parametrize(
    ("spend", "published"),
    [  # five equally spaced looks, two-sided α = 0.05: Jennison & Turnbull 2000; Lan & DeMets 1983
        (obrien_fleming, (4.877, 3.357, 2.680, 2.290, 2.031)),
        (pocock, (2.438, 2.427, 2.410, 2.397, 2.386)),
    ],
)
def test_bounds_are_the_published_ones(spend: object, published: tuple[float, ...]) -> None:
    assert critical_values(FIFTHS, 0.05, spend) == pytest.approx(published, abs=2e-3)  # type: ignore[arg-type]


def test_a_single_look_is_the_plain_test() -> None:
    assert critical_values((1.0,), 0.05) == pytest.approx((1.959964,), abs=1e-5)
    assert sequential_p([0.03], (1.0,)) == pytest.approx(0.03, rel=1e-4)


def test_looking_three_times_is_wrong_as_often_as_allowed() -> None:
    shares = tuple(n / LOOKS[-1] for n in LOOKS)
    bounds = critical_values(shares, 0.05)
    walk = np.random.default_rng(0).standard_normal((200_000, LOOKS[-1])).cumsum(1)
    crossed = [np.abs(walk[:, n - 1]) / np.sqrt(n) > c for n, c in zip(LOOKS, bounds, strict=True)]
    assert np.any(crossed, axis=0).mean() == pytest.approx(0.05, abs=0.002)


def test_a_sequential_p_value_is_the_least_rate_that_rejects() -> None:
    shares = tuple(n / LOOKS[-1] for n in LOOKS)
    for alpha in (0.001, 0.05, 0.2):
        levels = nominal_levels(shares, alpha)
        assert sequential_p([levels[0]], shares) == pytest.approx(alpha, rel=1e-3)
        assert sequential_p([1.0, levels[1], 1.0], shares) == pytest.approx(alpha, rel=1e-3)
    assert sequential_p([0.9, 0.9, 0.9], shares) > 0.5
    with pytest.raises(PodiumError, match="must rise"):
        critical_values((0.5, 0.5), 0.05)


def test_corrections_by_hand() -> None:
    """The example of Benjamini and Hochberg 1995: four of fifteen, and three by Holm's."""
    first = (0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459)
    p = (*first, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000)
    named = {str(k): v for k, v in enumerate(p)}
    assert benjamini_hochberg(named) == {"0", "1", "2", "3"}
    assert holm(named) == {"0", "1", "2"}
    assert benjamini_hochberg({}) == holm({}) == set()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_what_survives_holm_survives_the_false_discovery_rate(values: list[float]) -> None:
    p = {str(n): x for n, x in enumerate(values)}
    assert holm(p) <= benjamini_hochberg(p)


def test_a_paired_test_by_hand() -> None:
    """Mean 2, s = √2.5, n = 5: t = 2.828 with 4 degrees of freedom, p = 0.0237."""
    assert one_sided_p([0, 1, 2, 3, 4], 0.0) == pytest.approx(0.02371, abs=1e-4)
    assert one_sided_p([0, 1, 2, 3, 4], 2.0) == pytest.approx(0.5)
    assert one_sided_p([1.0], 0.0) == 1.0
    assert (one_sided_p([1.0, 1.0], 0.5), one_sided_p([1.0, 1.0], 1.0)) == (0.0, 1.0)


def test_evidence_counts_whole_looks_and_its_interval_narrows() -> None:
    draw = np.random.default_rng(1).normal(0.1, 0.05, 16).tolist()
    with pytest.raises(PodiumError, match="fewer than the first look"):
        paired_evidence(draw[:7], 0.0, 0.03)
    first, same, last = (paired_evidence(draw[:n], 0.0, 0.03) for n in (8, 11, 16))
    assert first == same
    assert first.pairs == 8
    assert last.high - last.low < first.high - first.low
    assert first.low < first.mean < first.high
    by_hand = paired_evidence([0.0, 0.0, -8.0, 1.0, 2.0, 3.0, 4.0, 100.0], 0.0, 0.03)
    assert (by_hand.ahead, by_hand.middle, by_hand.worst) == (0.75, 1.5, -8.0)
    assert last.detectable < first.detectable
    assert settled(last)
    assert not settled(paired_evidence(np.random.default_rng(2).normal(0.02, 0.1, 8).tolist(), 0.0, 0.03))


def of(p_above: float, p_below: float) -> PairedEvidence:
    return PairedEvidence(16, 0.0, -1.0, 1.0, p_above, p_below, 0.1, -0.2, 0.5, 0.0)


def test_verdicts_are_of_all_claims_together() -> None:
    alone = decide({"a": of(0.04, 1.0)})
    assert alone == {"a": "shown*"}
    many = decide({"a": of(0.04, 1.0), **{str(n): of(0.9, 0.9) for n in range(9)}})
    assert set(many.values()) == {"not shown"}
    assert decide({"a": of(1e-5, 1e-5), "b": of(0.03, 0.9), "c": of(0.04, 0.9)}) == {
        "a": "refuted*",  # there, but smaller than what matters
        "b": "shown",
        "c": "shown",
    }
