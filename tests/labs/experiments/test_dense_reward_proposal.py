"""Dense rewards of tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from podium.analysis.decision_table import DecisionTable
from podium.analysis.dense_rewards import shapley_credit, transition_graph
from podium.evaluation.resample import Array
from podium.labs.experiments.dense_reward_proposal import (
    GAMMA,
    Dense,
    by_coalitions,
    closeness,
    in_halves,
    shaped_by_closeness,
    shaped_by_values,
    walking_bonus,
)
from podium.worlds.keydoor import KeyDoor

WORLD = KeyDoor(level=1, slip=0.1)
DYNAMICS = WORLD.dynamics(WORLD.task(1))
TABLE = DecisionTable.of(DYNAMICS)


def test_a_potential_changes_every_return_by_its_start() -> None:
    shaped = shaped_by_values(TABLE, DYNAMICS.actions).paid
    start = float(TABLE.best(TABLE.reward, 0.0, GAMMA)[1][0, 0])
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        logits = torch.randn(TABLE.shape, dtype=torch.float64, generator=generator)
        plain, dense = (float(TABLE.value(logits, reward, gamma=GAMMA)) for reward in (TABLE.reward, shaped))
        assert dense == pytest.approx(plain - start, abs=1e-12)


def test_only_walking_is_paid_for() -> None:
    extra = walking_bonus(TABLE, DYNAMICS.actions).paid - TABLE.reward
    paid = {DYNAMICS.actions[number] for number in extra.nonzero()[:, 1].tolist()}
    assert paid
    assert all(name.startswith("go ") for name in paid)
    assert extra[-1].abs().sum() == 0  # nothing at the end


HOUSE = KeyDoor(level=2)
CERTAIN = HOUSE.dynamics(HOUSE.task(1))  # every action has one outcome
HALL = DecisionTable.of(CERTAIN)
WALKS = HALL.walks(torch.zeros(HALL.shape, dtype=torch.float64), 64, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("shaped", [shaped_by_values, shaped_by_closeness])
def test_along_episodes_a_potential_pays_what_its_table_says(shaped: Callable[..., Dense]) -> None:
    dense, (states, actions) = shaped(HALL, CERTAIN.actions), WALKS
    assert dense.along is not None
    paid = dense.paid[torch.arange(HALL.horizon), states, actions].numpy()
    assert dense.along(states, actions) == pytest.approx(paid)
    assert abs(paid - HALL.reward[states, actions].numpy()).max() > 0.01


@pytest.mark.parametrize("share", [shapley_credit, in_halves])
def test_credits_of_spans_sum_to_what_their_table_pays(share: Callable[..., Array]) -> None:
    dense, (states, actions) = by_coalitions(share, HALL, CERTAIN.actions), WALKS
    assert dense.along is not None
    along = dense.along(states, actions)
    assert along.sum(1) == pytest.approx(dense.paid[states, actions].sum(1).numpy())
    assert np.count_nonzero(along, axis=1).max() <= 4  # at the ends of the spans alone


def test_closeness_counts_steps_to_the_goal() -> None:
    """0 – 1 – 2; 3 and 4 were not seen."""
    graph = transition_graph([[0.0], [1.0], [2.0], [1.0]], 0.5)
    assert closeness(graph, 2, 5).tolist() == pytest.approx([GAMMA**2, GAMMA, 1.0, 0.0, 0.0])
    assert closeness(graph, 4, 5).tolist() == [0.0] * 5
