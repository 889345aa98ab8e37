"""Couplings through a bottleneck: the worked example, what always holds, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from podium.analysis import coupling
from podium.core.errors import PodiumError

P, Q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.6, 0.4])


def test_the_greedy_coupling_by_hand() -> None:
    joint = coupling.coupled([0.5, 0.3, 0.2], Q)
    np.testing.assert_allclose(joint, [[0.5, 0], [0, 0.3], [0.1, 0.1]], atol=1e-12)
    assert coupling.bits(joint) == pytest.approx(1.685475, abs=1e-6)


def test_the_lightest_are_merged_only_if_that_is_enough() -> None:
    assert coupling.blocks_within(P, 1.5) == [[0, 1], [2], [3]]  # 1.570951 would be too much, 1.156780 is not
    assert coupling.blocks_within(P, 1.6) == [[0], [1], [2, 3]]
    joint = coupling.bottleneck(P, Q, 1.5)
    expected = [[0.342857, 0.057143], [0.257143, 0.042857], [0, 0.2], [0, 0.1]]
    np.testing.assert_allclose(joint, expected, atol=1e-6)
    assert coupling.mutual_information(joint) == pytest.approx(0.556780, abs=1e-6)


def test_mass_moves_between_two_functions() -> None:
    table = np.array([[0.7, 0.0], [0.0, 0.2], [0.0, 0.1]])
    more, less = coupling.moved(table, 0.01, True), coupling.moved(table, 0.01, False)
    found = [(coupling.bits(x.sum(0)), coupling.mutual_information(x)) for x in (more, less)]
    np.testing.assert_allclose(found, [(0.944544, 0.897644), (0.868721, 0.821822)], atol=1e-6)
    with pytest.raises(PodiumError, match="cannot move"):
        coupling.moved(table, 0.5, False)


@pytest.mark.parametrize("seed", range(20))
def test_marginals_rate_and_gap_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(25):
        p, q = rng.dirichlet(np.ones(rng.integers(2, 12))), rng.dirichlet(np.ones(rng.integers(2, 7)))
        rate = rng.uniform(0, coupling.bits(p))
        blocks = coupling.blocks_within(p, rate)
        entropy = coupling.bits([p[members].sum() for members in blocks])
        second = float(np.sort(p)[-2])
        assert entropy <= rate + 1e-9
        assert rate - entropy <= coupling.bits([second, 1 - second]) + 1e-9
        joint = coupling.bottleneck(p, q, rate)
        np.testing.assert_allclose(joint.sum(1), p, atol=1e-9)
        np.testing.assert_allclose(joint.sum(0), q, atol=1e-9)


def test_limits() -> None:
    joint = coupling.bottleneck(P, Q, 0.0)  # one block: nothing is said
    np.testing.assert_allclose(joint, P[:, None] * Q, atol=1e-12)
    assert coupling.blocks_within([0.5, 0.0, 0.5], 2.0) == [[0], [2]]
    np.testing.assert_allclose(coupling.bottleneck([1.0, 0.0], Q, 1.0), [[0.6, 0.4], [0, 0]], atol=1e-12)
    assert coupling.quantised(P, 1.0) == [[0, 1], [2, 3]]
    assert coupling.quantised([0.2] * 5, 1.6) == [[0, 1], [2, 3], [4]]


def test_bad_input_is_refused() -> None:
    for p in ([0.5, 0.6], [-0.1, 1.1], []):
        with pytest.raises(PodiumError, match="probabilities that sum to 1"):
            coupling.coupled(p, Q)
    with pytest.raises(PodiumError, match="negative"):
        coupling.blocks_within(P, -1.0)
    with pytest.raises(PodiumError, match="has probability 0"):
        coupling.posterior_after(np.array([[0.5, 0.0], [0.5, 0.0]]), 1)
