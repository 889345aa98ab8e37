"""Slices of failures: worked numbers, limits and refusals."""

from itertools import pairwise

import numpy as np
import pytest

from podium.core.errors import PodiumError
from podium.tables.slices import Slices, fit_slices, group_dro, precision_at, quantile_mask, worst_slices


def test_mask_keeps_the_upper_share():
    found = quantile_mask([[0.1, 0.9], [0.4, 0.7]], [[1.0, 2.0], [3.0, 4.0]], 0.7)
    assert found.threshold == pytest.approx(0.72)
    assert found.picture.tolist() == [[0.0, 2.0], [0.0, 0.0]]


def test_a_quantile_of_zero_and_a_constant_map_keep_all():
    assert quantile_mask([[0.1, 0.9]], [[1.0, 2.0]], 0.0).kept == 1.0
    assert quantile_mask([[0.5, 0.5]], [[1.0, 2.0]], 0.7).kept == 1.0


def test_labels_and_predictions_decide_between_equal_gaussians():
    equal = np.zeros((2, 1)), np.ones((2, 1))
    p, guess = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[0.1, 0.9], [0.5, 0.5]])
    found = Slices(np.array([0.5, 0.5]), *equal, p, guess).posterior([[0.3]], [[0.2, 0.8]], [[1.0, 0.0]])
    assert found.responsibility[0].tolist() == pytest.approx([0.727074, 0.272926], abs=1e-6)


def test_without_weights_labels_say_nothing():
    mixture = Slices(
        np.array([0.5, 0.5]), np.array([[0.0], [4.0]]), np.ones((2, 1)), np.eye(2), np.eye(2), None, 0.0, 0.0
    )
    found = mixture.posterior([[0.0]], [[0.0, 1.0]], [[0.0, 1.0]])
    assert found.responsibility[0, 1] == pytest.approx(1 / (1 + np.exp(8.0)))


def test_group_dro_raises_the_worst_group_first():
    weights, loss = group_dro([0.5, 0.5], [0.2, 0.9], 0.01)
    assert weights.tolist() == pytest.approx([0.498250, 0.501750], abs=1e-6)
    assert loss == pytest.approx(0.551225, abs=1e-6)
    assert group_dro([0.5, 0.5], [0.2, 0.9], 1.0)[0].tolist() == pytest.approx([0.331812, 0.668188], abs=1e-6)
    assert group_dro([0.5, 0.5], [0.0, 1e6], 1.0)[0].tolist() == [0.0, 1.0]  # nothing overflows


def planted(seed=0, count=300):
    """Two classes, one cluster of which is always taken for the other class."""
    rng = np.random.default_rng(seed)
    label = np.arange(count) % 2
    slice_of = (label == 1) & (rng.random(count) < 0.3)
    e = rng.normal(size=(count, 3)) + 4 * slice_of[:, None] * np.array([1.0, 0.0, 0.0])
    sure = np.where(slice_of, 0.1, np.where(label == 1, 0.9, 0.1))
    return e, np.eye(2)[label], np.stack([1 - sure, sure], 1), slice_of


@pytest.mark.parametrize("full", [False, True])
def test_likelihood_rises_and_the_planted_slice_is_found(full):
    e, label, prediction, slice_of = planted()
    mixture, likelihoods = fit_slices(e, label, prediction, slices=6, full=full, tolerance=1e-9)
    assert all(b >= a - 1e-6 for a, b in pairwise(likelihoods))
    found = mixture.posterior(e, prediction, None if full else label)
    assert precision_at(found.responsibility, slice_of.astype(int))[1] == 1.0
    if not full:
        assert precision_at(found.responsibility[:, worst_slices(mixture, 2)], slice_of.astype(int))[1] == 1.0


def test_precision_divides_by_k_where_a_slice_is_small():
    assert precision_at([[0.9, 0.1], [0.2, 0.8]], [0, 1], 4) == {0: 0.25, 1: 0.25}


def test_bad_input_is_refused():
    with pytest.raises(PodiumError, match="cannot mask"):
        quantile_mask([[0.1]], [[1.0, 2.0]], 0.7)
    with pytest.raises(PodiumError, match="from 4 to 300 slices"):
        fit_slices(*planted()[:3], slices=3)
    with pytest.raises(PodiumError, match="row of responsibilities"):
        precision_at([[1.0]], [0, 1])
