"""Faults that the battery has found in Podium's own parts, each as a number worked out by hand."""

from __future__ import annotations

import pytest
import torch

from podium import advantage, memories, select
from podium.core import Relation
from podium.core.batch import Batch
from podium.core.errors import PodiumError

F = torch.float64


def rewards(values: list[float], group: list[str], **columns: object) -> Batch:
    named = {name.replace("__", "."): x for name, x in columns.items()}
    return Batch.from_rewards(torch.tensor(values, dtype=F), group, named)


def test_two_groups_of_a_task_are_one_observation_of_it() -> None:
    # rho = 1 at no shift is clipped to 0.96; success 3/4 over both groups.
    batch = rewards([1, 1, 1, 0], ["a", "a", "b", "b"], group__task=["t", "t"], group__policy_shift=torch.zeros(2))
    tracker = memories.SuccessTracker()
    alpha = tracker.recall(tracker.observe(tracker.initial(), batch), ["t"])["group.tracker.alpha"]
    torch.testing.assert_close(alpha, torch.tensor([0.96 * 0.5 + 0.75], dtype=F))


def test_a_task_whose_rollouts_do_not_count_was_not_observed() -> None:
    batch = rewards([1, 0], ["a", "b"], rollout__purpose=["train", "probe"], group__policy_shift=torch.zeros(2))
    tracker = memories.SuccessTracker()
    recalled = tracker.recall(tracker.observe(tracker.initial(), batch), ["a", "b"])
    torch.testing.assert_close(recalled["group.tracker.beta"], torch.tensor([0.48, 0.5], dtype=F))


def test_quantiles_stay_unknown_where_nobody_counts() -> None:
    batch = rewards([1, 0], ["a", "b"], rollout__purpose=["probe", "probe"], group__bundle=[0, 0])
    tracker = memories.QuantileTracker()
    assert tracker.observe(tracker.initial(), batch)["quantiles"].isnan().all()


def test_verdicts_about_rollouts_that_do_not_count_do_not_count() -> None:
    # Scores 1, 0 and a probe of 5: with d = 1 the others get ±(1/2) / sqrt(2 · 1 / (2 · 2 · 1)) = ±0.5 / sqrt(0.5).
    batch = rewards([0.0, 0.0, 0.0], ["a"] * 3, rollout__purpose=["train", "train", "probe"])
    left, right, d = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 2]), torch.tensor([1.0, -4.0, -5.0], dtype=F)
    batch = batch.with_relation("pair", Relation("rollout", left, right, {"difference": d}))
    found = advantage.PairwiseDifferences(epsilon=0.0)(batch)["rollout.advantage"][:2]
    torch.testing.assert_close(found, torch.tensor([0.5, -0.5], dtype=F) / 0.5**0.5)


def test_a_step_without_comparison_gets_nothing_even_without_epsilon() -> None:
    batch = Batch(
        {("turn", "rollout"): torch.tensor([0]), ("rollout", "group"): torch.tensor([0])},
        {"turn.state": ["s"], "turn.reward": torch.ones(1, dtype=F), "rollout.reward": torch.ones(1, dtype=F)},
    )
    assert advantage.NestedHistories(epsilon=0.0)(batch)["step.advantage"].tolist() == [0.0]


def test_a_group_without_weight_keeps_its_values_whoever_stands_first() -> None:
    batch = rewards([3.0, 1.0], ["a", "a"], rollout__size=torch.zeros(2, dtype=F))
    found = advantage.Normalize(weight="rollout.size", scale="none")(batch)["rollout.advantage"]
    assert found.tolist() == [3.0, 1.0]


def test_success_rates_outside_their_range_are_refused() -> None:
    with pytest.raises(PodiumError, match=r"must lie in \[0, 1\]"):
        select.Uncertain()({"group.tracker.value": torch.tensor([0.5, 1.5])})
