"""Random draws: keyed by who an element is, not by where it stands."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from podium.core import Batch, Rollout, Turn
from tests.core.hierarchy import Hierarchy, hierarchies

LEVELS = ("token", "turn", "rollout", "group")


@given(hierarchies())
@settings(deadline=None, max_examples=40)
def test_draws_follow_their_elements_when_rows_and_groups_are_reordered(h: Hierarchy) -> None:
    batch = h.batch({f"{level}.n": torch.arange(h.sizes[level]) for level in LEVELS})
    rows, groups = torch.randperm(len(batch)), torch.randperm(batch.size("group"))
    for moved in (batch.take("rollout", rows), batch.take("group", groups)):
        for level in LEVELS:
            drawn = batch.random(level, "x")[moved[f"{level}.n"]]
            assert torch.equal(moved.random(level, "x"), drawn)


def test_draws_do_not_depend_on_the_numbering_of_named_groups_nor_on_who_else_is_there() -> None:
    rewards = torch.zeros(4)
    batch = Batch.from_rewards(rewards, ["a", "b", "b", "c"])
    other = Batch.from_rewards(rewards, ["b", "b", "c", "a"])
    assert torch.equal(batch.random("rollout", "x")[[1, 2, 3, 0]], other.random("rollout", "x"))
    alone = Batch.from_rewards(rewards[:2], ["b", "b"])
    assert torch.equal(batch.random("rollout", "x")[1:3], alone.random("rollout", "x"))


def test_draws_do_not_depend_on_padding() -> None:
    wide = Batch.from_padded(torch.tensor([[1, 1, 0, 0], [0, 1, 0, 1]]), ["a", "b"])
    narrow = Batch.from_padded(torch.ones(2, 2), ["a", "b"])
    assert torch.equal(wide.random("token", "x"), narrow.random("token", "x"))


def test_draws_differ_by_name_seed_and_element() -> None:
    batch = Batch.from_padded(torch.ones(50, 40), list(range(50)), seed=1)
    other = Batch.from_padded(torch.ones(50, 40), list(range(50)), seed=2)
    draws = [batch.random("token", "x"), batch.random("token", "y"), other.random("token", "x")]
    for i, a in enumerate(draws):
        assert len(a.unique()) > 1990  # of 2,000: float32 holds 16.7 million values in [0, 1)
        for b in draws[:i]:
            assert abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) < 0.1
    assert torch.equal(draws[0], batch.random("token", "x"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_are_uniform(dtype: torch.dtype) -> None:
    batch = Batch.from_padded(torch.ones(200, 500), list(range(200)), {"rollout.reward": torch.zeros(200, dtype=dtype)})
    u = batch.random("token", "x")
    assert u.dtype == dtype
    assert 0 <= float(u.min()) < float(u.max()) < 1
    # The Kolmogorov–Smirnov distance of 100,000 uniform draws is below 0.0062 with probability 0.999.
    place = torch.arange(1, len(u) + 1, dtype=torch.float64) / len(u)
    assert float((u.sort().values.double() - place).abs().max()) < 0.0062
    neighbours = torch.corrcoef(torch.stack([u[1:], u[:-1]]))[0, 1]
    assert abs(float(neighbours)) < 0.015


def test_two_groups_of_one_task_draw_apart_if_they_are_told_apart() -> None:
    rows = [Rollout("a", [Turn([1, 2])], group=instance) for instance in (0, 0, 1, 1)]
    batch = Batch.from_rollouts(rows)
    assert batch.link("rollout", "group").tolist() == [0, 0, 1, 1]
    assert batch["group.task"] == ("a", "a")
    assert len(batch.random("token", "x").unique()) == 8


def test_a_uid_names_a_rollout_wherever_it_is_grouped() -> None:
    a = Batch.from_rewards(torch.zeros(2), [0, 0], {"rollout.uid": ["p", "q"]})
    b = Batch.from_rewards(torch.zeros(2), [5, 9], {"rollout.uid": ["q", "p"]})
    assert torch.equal(a.random("rollout", "x"), b.random("rollout", "x").flip(0))


def test_tasks_may_be_numbers_of_any_kind() -> None:
    for tasks in (torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 2, 3]), [("a", 1), ("a", 2), ("b", 1)]):
        batch = Batch.from_rewards(torch.zeros(3), tasks)
        assert len(batch.random("group", "x").unique()) == 3


def test_several_numbers_for_each_element_do_not_depend_on_its_place() -> None:
    batch = Batch.from_rewards(torch.zeros(6), [0, 0, 0, 1, 1, 1])
    wide = batch.random("rollout", "noise", 500)
    assert wide.shape == (6, 500)
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    assert torch.equal(batch.take("rollout", order).random("rollout", "noise", 500), wide[order])
    assert torch.equal(batch.random("rollout", "noise", 20), wide[:, :20])  # more of them are more of the same
    assert abs(float(wide.mean()) - 0.5) < 0.02
    assert len(wide.unique()) > 2950
