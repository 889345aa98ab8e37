"""Weights by how a rollout did beside its group, by hand."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.parts.shape import PreferenceWeights


def weights(rewards: list[float], **settings: float) -> tuple[list[float], list[float]]:
    batch = Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), [0] * len(rewards))
    found = PreferenceWeights(**settings)(batch)
    return found["rollout.policy_weight"].tolist(), found["rollout.kl_weight"].tolist()


def test_successes_weigh_more_and_are_held_less() -> None:
    policy, kl = weights([1, 0, 0, 0, 1])
    assert policy == pytest.approx([1.36, 0.76, 0.76, 0.76, 1.36])
    assert kl == pytest.approx([0.0256, 0.0496, 0.0496, 0.0496, 0.0256])


@pytest.mark.parametrize("rewards", [[1.0, 1.0, 1.0], [0.3]])
def test_equal_rewards_and_a_group_of_one_weigh_alike(rewards: list[float]) -> None:
    policy, kl = weights(rewards)
    assert policy == pytest.approx([1.0] * len(rewards))
    assert kl == pytest.approx([0.04] * len(rewards))


def test_weights_never_change_sign_whatever_the_rewards() -> None:
    policy, kl = weights([10.0, -10.0])
    assert min(*policy, *kl) == 0
