"""ROVER: the policy's log-ratio as the Q function of acting at random."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.policy import HeadRows
from podium.policy.head.functionals import FUNCTIONALS
from tests.conformance.helpers import credited, differentiate
from tests.methods.support import short_run

OLD = torch.zeros(2, 2, 2, dtype=torch.float64)
NOW = torch.tensor([[[1, 0], [0, 0]], [[0, 0], [0, 1]]], dtype=torch.float64)
IDS = torch.tensor([[0, 1], [1, 1]])


def signals(logits: Tensor, ids: Tensor, of: str) -> dict[str, Tensor]:
    rows = HeadRows(logits.flatten(0, 1), ids.flatten(), lambda known: known)
    return {f"token.{of}.{name}": FUNCTIONALS[name](rows).reshape(ids.shape) for name in ("logp", "mean_logp")}


def batch_of(now: Tensor, rewards: list[float]) -> Batch:
    columns = signals(now, IDS, "now") | signals(OLD, IDS, "old")
    return Batch.from_padded(
        torch.ones(2, 2), [0, 0], columns | {"rollout.reward": torch.tensor(rewards, dtype=torch.float64)}
    )


def test_rover_worked_example() -> None:
    method = methods.rover()
    batch = credited(method, batch_of(NOW, [1.0, 0.0]))
    (term,) = method.objective
    assert term.q(batch).tolist() == pytest.approx([0.3798855, 0, 0, 0.3798855])  # type: ignore[attr-defined]
    assert term.next_value(batch).tolist() == pytest.approx([0, 0, -0.1201144, 0], abs=1e-6)  # type: ignore[attr-defined]
    assert differentiate(method.objective, batch).step.loss == pytest.approx(0.3557920)


def test_rover_at_its_first_mini_batch_points_where_dr_grpo_does() -> None:
    rover, dr_grpo = methods.rover(beta=0.0), methods.dr_grpo(max_length=4)
    batch = batch_of(OLD, [1.0, 0.0])
    slope, other = (differentiate(m.objective, credited(m, batch)).grad_logp for m in (rover, dr_grpo))
    assert_close(slope / slope.norm(), other / other.norm())
    assert_close(slope, -2 * credited(rover, batch)["token.advantage"] / 4)  # twice REINFORCE's, over four tokens


def test_rover_with_equal_rewards_pulls_towards_the_old_policy() -> None:
    rover = methods.rover(beta=0.0)
    slope = differentiate(rover.objective, credited(rover, batch_of(NOW, [1.0, 1.0]))).grad_logp
    assert_close(slope.sign(), (batch_of(NOW, [1.0, 1.0])["token.now.logp"] - math.log(0.5)).sign())


def test_the_mean_log_probability_is_largest_for_a_uniform_distribution() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 7, generator=generator, dtype=torch.float64)
    rows = HeadRows(logits, torch.zeros(50, dtype=torch.long), lambda known: known)
    assert bool((FUNCTIONALS["mean_logp"](rows) < -math.log(7)).all())
    flat = HeadRows(0 * logits, torch.zeros(50, dtype=torch.long), lambda known: known)
    assert_close(FUNCTIONALS["mean_logp"](flat), torch.full((50,), -math.log(7), dtype=torch.float64))


def test_greedy_on_the_values_of_acting_at_random_reaches_a_right_leaf_wherever_there_is_one() -> None:
    generator = torch.Generator().manual_seed(3)
    for _ in range(20):
        leaves = (torch.rand(3, 3, 3, generator=generator) < 0.1).double()
        if not leaves.any():
            continue
        first = leaves.mean((1, 2)).argmax()
        second = leaves[first].mean(1).argmax()
        assert leaves[first, second].max() == 1
        spread = torch.softmax(leaves.mean((1, 2)) / 0.1, 0)
        assert bool((spread[leaves.amax((1, 2)) == 1] > 0).all())


def test_the_value_of_the_next_state_stays_within_the_turn() -> None:
    method = methods.rover()
    columns = signals(NOW, IDS, "now") | signals(OLD, IDS, "old")
    mask = torch.tensor([[1, 0], [1, 1]])  # the second token of the first rollout is the world's
    batch = Batch.from_padded(mask, [0, 0], columns | {"rollout.reward": torch.tensor([1.0, 0.0])}, given=True)
    value = method.objective[0].next_value(credited(method, batch))  # type: ignore[attr-defined]
    assert value[0] == 0
    assert value[2] < 0


def test_rover_trains(tmp_path: Path) -> None:
    last = short_run("rover", tmp_path / "run", level=3).metrics[-1]
    assert last["grad_norm.policy"] > 0
    assert "next_value" in last
