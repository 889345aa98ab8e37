"""The gradient through an induced policy, against hand-worked numbers and finite differences."""

from __future__ import annotations

import pytest
import torch

from podium.analysis.bilevel import RewardDesign, conjugate_gradient
from podium.analysis.decision_table import DecisionTable
from podium.labs.experiments.parl import house_features, judged_loss
from podium.worlds.keydoor import KeyDoor


def test_three_actions_by_hand() -> None:
    nu, utility = (torch.tensor(x, dtype=torch.float64) for x in ([0.0, 1, 0], [1.0, 0, 0]))
    design = RewardDesign.bandit(utility, 1.0)
    assert design.policy(nu).tolist() == pytest.approx([0.2119416, 0.5761169, 0.2119416], abs=5e-8)
    assert float(design.worth(nu)) == pytest.approx(0.2119416, abs=5e-8)
    assert design.gradient(nu).tolist() == pytest.approx([0.1670223, -0.1221031, -0.0449192], abs=5e-8)
    assert design.finite_difference(nu).tolist() == pytest.approx(design.gradient(nu).tolist(), abs=1e-9)


def test_several_turns_against_finite_differences() -> None:
    """Two states and three turns: the second derivatives run through the states that are reached."""
    generator = torch.Generator().manual_seed(1)
    moves = torch.rand(3, 2, 3, dtype=torch.float64, generator=generator)
    moves[-1], moves[-1, :, -1] = 0.0, 1.0
    table = DecisionTable(moves / moves.sum(-1, keepdim=True), torch.zeros(3, 2, dtype=torch.float64), 3)
    features = torch.randn(3, 2, 4, dtype=torch.float64, generator=generator)
    utility = torch.randn(3, 2, dtype=torch.float64, generator=generator)
    features[-1] = utility[-1] = 0.0
    design = RewardDesign(table, features, utility, 0.5)
    nu = torch.randn(4, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(design.gradient(nu), design.finite_difference(nu), rtol=1e-6, atol=1e-8)


def test_a_house_against_finite_differences() -> None:
    world = KeyDoor(level=1)
    dynamics = world.dynamics(world.task(0))
    features = house_features(dynamics)
    utility = features @ torch.tensor([1.0, 0.4, -0.2, 0.4, 0, -0.1], dtype=torch.float64)
    design = RewardDesign(DecisionTable.of(dynamics), features, utility, 0.5)
    nu = torch.tensor([0.5, 0.1, 0.2, 0.0, 0.1, 0.0], dtype=torch.float64)
    torch.testing.assert_close(design.gradient(nu), design.finite_difference(nu), rtol=1e-4, atol=1e-6)


def test_conjugate_gradients_solve_within_the_range_of_a_singular_matrix() -> None:
    matrix = torch.tensor([[2.0, -1, -1], [-1, 2, -1], [-1, -1, 2]], dtype=torch.float64)
    target = torch.tensor([1.0, 0, -1], dtype=torch.float64)
    x = conjugate_gradient(lambda v: matrix @ v, target, 10, 1e-12)
    torch.testing.assert_close(matrix @ x, target)


def test_the_judged_loss_is_the_cross_entropy_of_the_label() -> None:
    nu = torch.tensor([1.0, -2.0], dtype=torch.float64)
    returns = torch.tensor([[[1.0, 0.0], [0.0, 0.5]], [[0.0, 0.0], [2.0, 0.0]]], dtype=torch.float64)
    label = torch.tensor([1.0, 0.0], dtype=torch.float64)  # differences of 2 and −2, judged as they are
    expected = torch.tensor([2.0, 2.0], dtype=torch.float64).neg().exp().log1p()
    torch.testing.assert_close(judged_loss(nu, returns, label), expected)
