"""Tables trained on tied rewards."""

from __future__ import annotations

import torch

from podium.labs.experiments.policy_cliff import tied_rewards, trained_table
from podium.parts.metric.reward_ties import hard_policy, soft_policy


def test_training_ends_at_the_hard_and_at_the_soft_optimum() -> None:
    reward = torch.tensor([[1.0, 0.9, 0.2]], dtype=torch.float64)
    first = torch.randn(1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(trained_table(reward, 0.0, 1000, first)[-1], hard_policy(reward))
    torch.testing.assert_close(trained_table(reward, 0.1, 1000, first)[-1], soft_policy(reward, 0.1))


def test_rewards_have_several_right_answers_or_one_best() -> None:
    generator = torch.Generator().manual_seed(0)
    assert set((tied_rewards(50, True, generator) == 1).sum(1).tolist()) == {2, 3, 4}
    assert set((tied_rewards(50, False, generator) == 1).sum(1).tolist()) == {1}
