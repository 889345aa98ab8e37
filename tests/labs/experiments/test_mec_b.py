"""The grid of the coding game, its policy, and what an episode tells."""

from __future__ import annotations

import numpy as np

from podium.analysis.coupling import blocks_within, through_blocks
from podium.labs.experiments.mec_b import grid_steps, played, soft_policy_table


def test_moves_are_probabilities_and_ends_stay() -> None:
    chance, reward = grid_steps()
    np.testing.assert_allclose(chance.sum(-1), 1.0)
    for state in np.flatnonzero(reward):
        np.testing.assert_allclose(chance[state, :, state], 1.0)


def test_a_cold_policy_avoids_the_trap_and_a_warm_one_wanders() -> None:
    beside_trap, start = 8 + 6, 56  # going right from there would end in the trap
    cold, warm = soft_policy_table(np.exp(-6.0)), soft_policy_table(np.exp(2.0))
    assert cold[beside_trap, 1] < 1e-6
    assert cold[start].max() > 0.4
    assert warm[start].min() > 0.1


def test_actions_follow_the_policy_whatever_is_sent() -> None:
    policy = soft_policy_table(np.exp(-3.0))
    belief = np.random.default_rng(0).dirichlet(np.ones(32))
    for row in policy:
        joint = through_blocks(belief, row, blocks_within(belief, 2.5))
        np.testing.assert_allclose(joint.sum(0), row, atol=1e-9)


def test_nothing_is_told_at_rate_zero() -> None:
    policy = soft_policy_table(np.exp(-3.0))
    _, belief = played(policy, blocks_within, 0.0, 16, np.random.default_rng(0))
    np.testing.assert_allclose(belief, 1 / 16)
    told = [played(policy, blocks_within, 4.0, 16, np.random.default_rng(n))[1] for n in range(5)]
    assert np.mean(told) > 0.5
