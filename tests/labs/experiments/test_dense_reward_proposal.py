"""Dense rewards of tables."""

from __future__ import annotations

import pytest
import torch

from podium.analysis.decision_table import DecisionTable
from podium.labs.experiments.dense_reward_proposal import GAMMA, shaped_by_values, walking_bonus
from podium.worlds.keydoor import KeyDoor

WORLD = KeyDoor(level=1, slip=0.1)
DYNAMICS = WORLD.dynamics(WORLD.task(1))
TABLE = DecisionTable.of(DYNAMICS)


def test_a_potential_changes_every_return_by_its_start() -> None:
    shaped = shaped_by_values(TABLE, DYNAMICS.actions)
    start = float(TABLE.best(TABLE.reward, 0.0, GAMMA)[1][0, 0])
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        logits = torch.randn(TABLE.shape, dtype=torch.float64, generator=generator)
        plain, dense = (float(TABLE.value(logits, reward, gamma=GAMMA)) for reward in (TABLE.reward, shaped))
        assert dense == pytest.approx(plain - start, abs=1e-12)


def test_only_walking_is_paid_for() -> None:
    extra = walking_bonus(TABLE, DYNAMICS.actions) - TABLE.reward
    paid = {DYNAMICS.actions[number] for number in extra.nonzero()[:, 1].tolist()}
    assert paid
    assert all(name.startswith("go ") for name in paid)
    assert extra[-1].abs().sum() == 0  # nothing at the end
