"""Rewards of any size that float32 can hold: their statistics stay finite, and ordinary ones keep their bits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from podium.core import Batch, Normalizer, Partition
from podium.core.cells import root
from podium.parts.advantage import Normalize

SCALES = st.sampled_from([2.0**100, -(2.0**100), 2.0**70, 2.0**-60])  # powers of two: scaling by them is exact
ESTIMATORS = {
    "grpo": Normalize(epsilon=0.0),
    "grpo, biased std": Normalize(epsilon=0.0, unbiased=False),
    "grpo, epsilon as a floor": Normalize(epsilon=0.0, epsilon_at="floor"),
    "dr-grpo": Normalize(scale="none"),
    "rloo": Normalize(centre="leave_one_out", scale="none"),
    "median": Normalize(centre="median", scale="none"),
    "std of the batch": Normalize(scope=(), epsilon=0.0),
}
REWARDS = st.lists(st.integers(-8, 8), min_size=8, max_size=8)


def advantages(part: Normalize, rewards: Tensor) -> Tensor:
    groups = ["a"] * 4 + ["b"] * (len(rewards) - 4)
    found: Tensor = part(Batch.from_rewards(rewards, groups))["rollout.advantage"]
    return found


@pytest.mark.parametrize("name", ESTIMATORS)
@given(rewards=REWARDS, scale=SCALES)
@settings(max_examples=20, deadline=None)
def test_advantages_follow_the_scale_of_the_rewards(name: str, rewards: list[int], scale: float) -> None:
    part, x = ESTIMATORS[name], torch.tensor(rewards, dtype=torch.float32)
    ordinary, extreme = advantages(part, x), advantages(part, x * scale)
    factor = scale if part.scale == "none" else (1.0 if scale > 0 else -1.0)
    torch.testing.assert_close(extreme / factor, ordinary, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ESTIMATORS)
@given(rewards=REWARDS, scale=SCALES, shift=st.integers(-1000, 1000))
@settings(max_examples=20, deadline=None)
def test_a_constant_added_to_all_rewards_changes_nothing(
    name: str, rewards: list[int], scale: float, shift: int
) -> None:
    part, x = ESTIMATORS[name], torch.tensor(rewards, dtype=torch.float32)
    one, other = advantages(part, x * scale), advantages(part, (x + shift) * scale)
    torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5 * (abs(scale) if part.scale == "none" else 1))


def test_one_reward_of_1e30_among_ones_keeps_advantages_finite() -> None:
    # Three ones and 1e30: mean m = 1e30/4, deviations −m, −m, −m, 3m, std = 2m.
    found = advantages(Normalize(), torch.tensor([1.0, 1.0, 1.0, 1e30] + [0.0] * 4))
    torch.testing.assert_close(found, torch.tensor([-0.5, -0.5, -0.5, 1.5] + [0.0] * 4))


@pytest.mark.parametrize("epsilon_at", ["outside", "inside", "floor"])
@pytest.mark.parametrize("virtual", [0, 2])
def test_no_choice_of_the_normaliser_loses_the_spread(epsilon_at: str, virtual: int) -> None:
    p, n = Partition(torch.zeros(4, dtype=torch.long), 1), Normalizer(epsilon_at=epsilon_at, virtual=virtual)
    x = torch.tensor([1e30, -1e30, 1e30, -1e30])
    torch.testing.assert_close(n.normalized(p, x), n.normalized(p, x.double()).float())


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=20))
@settings(max_examples=100, deadline=None)
def test_the_std_of_ordinary_rewards_keeps_the_bits_of_float32(values: list[float]) -> None:
    x = torch.tensor(values, dtype=torch.float32)
    p = Partition(torch.zeros(len(x), dtype=torch.long), 1)
    single = root(p.agg.dispersion(p.centre(x), None, None, True))
    if float(single) > 1e-15 or bool((x == x[0]).all()):  # below, the squares are no longer normal numbers
        assert p.agg.std(x).tolist() == single.tolist()


def test_means_of_rewards_are_summed_in_float64() -> None:
    # In float32 each 1 is lost beside 2²⁴.
    x = torch.tensor([2.0**24, 1.0, 1.0, 2.0], dtype=torch.float32)
    assert Batch.from_rewards(x, ["a"] * 4).by("rollout", "group").agg.mean(x).tolist() == [(2.0**24 + 4) / 4]
