"""The frontier of reward and KL divergence: tilts, best-of-N, and estimates from samples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from podium.core.errors import PodiumError
from podium.evaluation.frontier import Frontier, best_of_bound, best_of_law, kl_between, tilt, tilt_within

P, R = [0.5, 0.3, 0.2], [0.0, 1.0, 2.0]


def test_the_tilt_within_a_budget_by_hand() -> None:
    beta, law = tilt_within(P, R, 0.3)
    assert beta == pytest.approx(1.0409975, abs=1e-7)
    assert law == pytest.approx([0.1886886, 0.2958609, 0.5154505], abs=1e-7)
    assert law @ R == pytest.approx(1.3267619, abs=1e-7)


def test_best_of_three_by_hand() -> None:
    law = best_of_law(P, R, 3)
    assert law == pytest.approx([0.125, 0.387, 0.488])
    assert kl_between(law, P) == pytest.approx(0.3605548, abs=1e-7)
    assert best_of_bound(3) == pytest.approx(0.4319456, abs=1e-7)
    assert law @ R == pytest.approx(1.363)


def test_the_ends_of_the_frontier() -> None:
    beta, law = tilt_within(P, R, 0.0)
    assert (beta, law.tolist()) == (math.inf, P)
    beta, law = tilt_within(P, R, 5.0)  # more than −ln 0.2
    assert (beta, law.tolist()) == (0.0, [0.0, 0.0, 1.0])
    assert tilt_within(P, [1.0, 1.0, 1.0], 0.3)[1].tolist() == P  # nothing to gain
    assert best_of_law(P, [1.0, 1.0, 1.0], 7) == pytest.approx(P)
    assert best_of_law(P, R, 1) == pytest.approx(P)


def test_outcomes_without_probability_stay_without() -> None:
    assert tilt([0.5, 0.5, 0.0], [0.0, 1.0, 1e30], 1.0)[2] == 0.0
    assert best_of_law([0.5, 0.5, 0.0], R, 4) == pytest.approx([1 / 16, 15 / 16, 0.0])


def test_equal_rewards_share_a_level_in_proportion() -> None:
    law = best_of_law([0.1, 0.3, 0.6], [1.0, 1.0, 0.0], 2)
    assert law == pytest.approx([0.64 / 4, 0.64 * 3 / 4, 0.36])


def test_a_wide_tilt_diverges_as_the_variance_over_two_squares() -> None:
    beta = 1e3
    variance = np.dot(P, np.square(R)) - np.dot(P, R) ** 2
    assert kl_between(tilt(P, R, beta), P) == pytest.approx(variance / (2 * beta**2), rel=1e-2)


def test_no_policy_with_the_same_divergence_has_a_higher_reward() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        p, r = rng.dirichlet(np.ones(5)), rng.standard_normal(5)
        other = rng.dirichlet(np.ones(5))
        _, law = tilt_within(p, r, kl_between(other, p))
        assert law @ r >= other @ r - 1e-9


def test_best_of_n_lies_below_the_frontier_and_within_its_bound() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3.5, 16):
        p, r = rng.dirichlet(np.ones(6)), rng.standard_normal(6)
        law = best_of_law(p, r, n)
        assert law.sum() == pytest.approx(1.0)
        assert kl_between(law, p) <= best_of_bound(n)
        assert tilt_within(p, r, kl_between(law, p))[1] @ r >= law @ r - 1e-12


def test_the_best_of_very_many_is_exact_where_the_best_is_rare() -> None:
    law = best_of_law([1 - 1e-18, 1e-18], [0.0, 1.0], 1e18)
    assert law[1] == pytest.approx(1 - math.exp(-1))


def test_a_trained_policy_in_the_plane() -> None:
    base = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    plane = Frontier(base, np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.5, 0.7], [0.2, 0.6]]))
    found = plane.measures()
    assert found["reward of the base"].mean == pytest.approx(0.375)
    assert found["reward of the trained"].mean == pytest.approx(0.75)
    assert found["KL of the trained"].mean == pytest.approx(0.5)
    assert found["below the frontier"].mean == pytest.approx(plane.height(0.5) - 0.75)
    most = (math.log(4) + math.log(2)) / 2  # all weight on what was right
    assert plane.height(most) == pytest.approx(1.0, abs=1e-3)
    assert plane.height(0.0) == pytest.approx(0.375, abs=1e-3)
    assert plane.best_of([1])[0] == pytest.approx((1, 0.0, 0.375))
    assert plane.best_of([2])[0][2] == pytest.approx((1 - 0.75**2 + 1 - 0.5**2) / 2)
    assert plane.as_dict()["best_of"] == plane.best_of([1, 2, 4])


def test_models_that_answered_other_tasks_are_refused() -> None:
    with pytest.raises(PodiumError, match="same tasks"):
        Frontier(np.zeros((2, 4)), np.zeros((3, 4)), np.zeros((3, 4)))
