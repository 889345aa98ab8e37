"""Exact tables as tensors, against the oracle of the world and against samples."""

from __future__ import annotations

import pytest
import torch

from podium.analysis.decision_table import DecisionTable
from podium.worlds.keydoor import KeyDoor

WORLD = KeyDoor(level=1, slip=0.2, turn_rewards=0.5)
DYNAMICS = WORLD.dynamics(WORLD.task(3))
TABLE = DecisionTable.of(DYNAMICS)


def test_the_value_is_that_of_the_oracle() -> None:
    policy = DYNAMICS.softmax(0.7)
    logits = torch.full(TABLE.shape, -torch.inf, dtype=torch.float64)
    logits[:, :-1] = torch.from_numpy(policy).clamp(min=1e-300).log()
    logits[:, -1] = 0.0
    for gamma in (1.0, 0.9):
        exact = DYNAMICS.oracle(policy, gamma).values[0, 0]
        assert float(TABLE.value(logits, TABLE.reward, gamma=gamma)) == pytest.approx(exact, rel=1e-9)


def test_no_policy_is_better_than_the_best() -> None:
    generator = torch.Generator().manual_seed(0)
    for bonus in (0.0, 0.3):
        logits, values = TABLE.best(TABLE.reward, bonus, 0.9)
        best = float(TABLE.value(logits, TABLE.reward, bonus, 0.9))
        assert best == pytest.approx(float(values[0, 0]), abs=1e-9)
        for _ in range(20):
            other = logits + torch.randn(TABLE.shape, dtype=torch.float64, generator=generator)
            assert float(TABLE.value(other, TABLE.reward, bonus, 0.9)) <= best + 1e-12


def test_walks_earn_the_value_on_average() -> None:
    logits = TABLE.best(TABLE.reward, 0.2)[0]
    states, actions = TABLE.walks(logits, 4000, torch.Generator().manual_seed(0))
    earned = TABLE.reward[states, actions].sum(1).mean()
    assert float(earned) == pytest.approx(float(TABLE.value(logits, TABLE.reward)), abs=0.03)
