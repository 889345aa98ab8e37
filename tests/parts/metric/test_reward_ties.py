"""Ties of rewards among answers, and what a small change of the reward does."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.metric import RewardTies
from podium.parts.metric.reward_ties import (
    hard_policy,
    optimal_actions,
    reward_gap,
    reward_shift,
    soft_policy,
    stable_variation,
    total_variation,
)

ONE = torch.tensor([[1, 1, 0.2], [1, 0.9, 0.2]], dtype=torch.float64)
OTHER = torch.tensor([[1, 1.01, 0.2], [1, 0.91, 0.2]], dtype=torch.float64)


def batch(rows: list[tuple[str, str, float, float]]) -> Batch:
    rollouts = [
        Rollout(task, (Turn((1,), (2,)),), columns={"answer": answer, "reward": reward, "extra": extra})
        for task, answer, reward, extra in rows
    ]
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def test_two_states_by_hand() -> None:
    assert reward_gap(ONE).tolist() == pytest.approx([0.0, 0.1])
    assert optimal_actions(ONE).sum(-1).tolist() == [2, 1]
    assert soft_policy(ONE, 0.1)[0].tolist() == pytest.approx([0.499916, 0.499916, 0.000168], abs=5e-7)
    assert soft_policy(OTHER, 0.1)[0].tolist() == pytest.approx([0.474945, 0.524896, 0.000159], abs=5e-7)
    soft = total_variation(soft_policy(ONE, 0.1), soft_policy(OTHER, 0.1))
    assert soft.tolist() == pytest.approx([0.024979, 0.020106], abs=5e-7)
    assert total_variation(hard_policy(ONE), hard_policy(OTHER)).tolist() == [0.5, 0.0]
    assert float(stable_variation(reward_shift(ONE, OTHER), 0.1)) == pytest.approx(0.05)


def test_one_action_has_no_second_best() -> None:
    assert reward_gap(torch.tensor([[1.0]])).tolist() == [math.inf]
    assert reward_gap(torch.tensor([[1.0, -torch.inf]])).tolist() == [math.inf]
    assert hard_policy(torch.tensor([[0.0, -torch.inf]])).tolist() == [[1.0, 0.0]]


def test_the_bound_holds_for_random_rewards_and_is_nearly_met_by_two_actions() -> None:
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(500, 5, dtype=torch.float64, generator=generator)
    other = one + 0.3 * torch.randn(500, 5, dtype=torch.float64, generator=generator)
    for alpha in (0.05, 0.5, 2.0):
        apart = total_variation(soft_policy(one, alpha), soft_policy(other, alpha))
        shift = (one - other).abs().amax(-1)
        assert (apart <= shift / (2 * alpha)).all()
    small = torch.tensor([[1e-4, -1e-4]], dtype=torch.float64)  # tanh(δ / 2α) / 2 against δ / 2α, δ = 1e-4 each way
    apart = total_variation(soft_policy(0 * small, 1.0), soft_policy(small, 1.0))
    assert float(apart) == pytest.approx(0.5e-4, rel=1e-6)


def test_answers_of_a_task_are_compared_by_their_mean_reward() -> None:
    rows = [
        ("x", "a", 1.0, 0.0),
        ("x", "b", 1.0, 1.0),
        ("x", "c", 0.0, 0.0),
        ("y", "a", 1.0, 0.0),
        ("y", "a", 0.0, 0.0),  # on average 0.5
        ("y", "b", 0.2, 0.0),
        ("z", "a", 1.0, 5.0),  # one answer
    ]
    metric = RewardTies(extra="rollout.extra", weight=0.01, alpha=0.1)
    one, other = metric.tables(batch(rows))
    expected = [[1.0, 1.0, 0.0], [0.5, 0.2, -math.inf], [1.0, -math.inf, -math.inf]]
    assert one.sort(-1, descending=True).values.tolist() == expected
    assert other[0].sort().values.tolist() == pytest.approx([0.0, 1.0, 1.01])
    found = {name: float(x) for name, x in metric(batch(rows)).items()}
    assert found["batch.ties.share"] == pytest.approx(1 / 3)
    assert found["batch.ties.gap"] == pytest.approx(0.15)  # of 0 and 0.3
    assert found["batch.ties.hard_tv"] == pytest.approx(0.5 / 3)
    assert 0 < found["batch.ties.soft_tv"] <= found["batch.ties.bound"]
    assert found["batch.ties.bound"] == pytest.approx(0.05 / 0.2)  # the lone answer shifts most


def test_without_an_extra_column_only_ties_and_gap_are_told() -> None:
    found = RewardTies()(batch([("x", "a", 1.0, 0.0), ("x", "a", 1.0, 0.0)]))
    assert list(found) == ["batch.ties.share", "batch.ties.gap"]
    assert float(found["batch.ties.share"]) == 0.0
    assert math.isnan(float(found["batch.ties.gap"]))  # no task has two answers


def test_a_bonus_of_nothing_is_refused() -> None:
    with pytest.raises(PodiumError, match=r"RewardTies.alpha = 0 is out of range"):
        RewardTies(alpha=0)


def test_shares_gaps_and_shifts_are_means_over_tasks() -> None:
    tied = [("tied", "x", 1.0, 0.0), ("tied", "y", 1.0, 1.0)]
    clear = [("clear", "x", 1.0, 0.0), ("clear", "y", 0.0, 0.0)]
    alone = [("alone", "x", 1.0, 0.0)]
    metric = RewardTies(extra="rollout.extra", weight=0.1, alpha=0.1)
    found = {name: float(x) for name, x in metric(batch([*tied, *clear, *alone])).items()}
    assert found["batch.ties.share"] == pytest.approx(1 / 3)
    assert found["batch.ties.gap"] == pytest.approx(0.5)  # the median of 0 and 1: one answer alone has no gap
    assert found["batch.ties.hard_tv"] == pytest.approx(0.5 / 3)
    assert found["batch.ties.soft_tv"] == pytest.approx((1 / (1 + math.exp(-1)) - 0.5) / 3)
