"""Dense rewards: coalitions, spans, graphs, potentials and the alarm, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from podium.analysis.dense_rewards import (
    discounted_return,
    misled,
    owen_credit,
    potential_shaping,
    shapley_credit,
    span_rewards,
    transition_graph,
)
from podium.core.errors import PodiumError


def test_two_units_and_their_token_rewards_by_hand() -> None:
    credit = shapley_credit([0.0, 0.2, 0.1, 0.6])
    assert credit == pytest.approx([0.35, 0.25])
    rewards = span_rewards(credit, [1, 2], [0.0, 0.0, 0.0], 0.6, 0.5)
    assert rewards == pytest.approx([0.0, 0.175, 0.425])
    assert rewards.sum() == pytest.approx(0.6)
    assert span_rewards(credit, [1, 2], [0.0, 0.0, 0.0], 0.6, 0.0) == pytest.approx([0.0, 0.0, 0.6])


def test_three_units_by_hand() -> None:
    value = [0, 1, 0, 1, 0, 1, 0, 2]
    assert shapley_credit(value) == pytest.approx([4 / 3, 1 / 3, 1 / 3])
    assert owen_credit(value, [[0, 1], [2]]) == pytest.approx([1.25, 0.25, 0.5])


def test_blocks_of_one_and_one_block_are_shapley() -> None:
    value = np.random.default_rng(0).standard_normal(16)
    for blocks in ([[0], [1], [2], [3]], [[3, 1, 0, 2]]):
        assert owen_credit(value, blocks) == pytest.approx(shapley_credit(value))
    assert owen_credit(value, [[0, 3], [1, 2]]).sum() == pytest.approx(value[-1] - value[0])


def test_a_unit_that_never_matters_gets_nothing_and_twins_the_same() -> None:
    value = [bin(mask & 0b011).count("1") ** 2 for mask in range(8)]
    assert shapley_credit(value) == pytest.approx([2.0, 2.0, 0.0])


def test_the_potential_leaves_the_return_but_for_its_start() -> None:
    shaping = potential_shaping([0.0, 0.5, 1.0, 0.0], 0.9)
    assert shaping == pytest.approx([0.45, 0.40, -1.00])
    plain = np.array([0.0, 0.0, 1.0])
    assert discounted_return(plain, 0.9) == pytest.approx(0.81)
    assert discounted_return(plain + shaping, 0.9) == pytest.approx(0.81)


def test_near_states_are_one_node() -> None:
    graph = transition_graph([[0.0], [0.1], [2.0], [0.0], [2.1]], 0.5)
    assert graph.nodes.tolist() == [[0.0], [2.0]]
    assert graph.label.tolist() == [0, 0, 1, 0, 1]
    assert graph.adjacency.tolist() == [[0.0, 3.0], [3.0, 0.0]]
    assert graph.target.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert transition_graph([[0.0]], 0.5).target.tolist() == [[0.0]]


def test_the_alarm_is_raised_where_pay_rises_and_the_outcome_falls() -> None:
    dense = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert misled(dense, [0.5, 0.6, 0.7, 0.6, 0.5, 0.4], window=2).tolist() == [False] * 4 + [True, True]
    assert not misled(dense, dense, window=2).any()
    assert not misled([1.0], [1.0]).any()


@pytest.mark.parametrize("value", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
def test_values_that_are_no_coalitions_are_refused(value: list[float]) -> None:
    with pytest.raises(PodiumError, match="have 2ⁿ values"):
        shapley_credit(value)


def test_blocks_that_leave_a_unit_out_are_refused() -> None:
    with pytest.raises(PodiumError, match="each of the 2 units once"):
        owen_credit([0.0, 1.0, 2.0, 3.0], [[0]])
