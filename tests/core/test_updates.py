"""The update plan: every row that is trained is seen once an epoch, in whole units."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.core import Batch
from podium.core.updates import Updates
from tests.core.hierarchy import Hierarchy, hierarchies


def plan(updates: Updates, batch: Batch) -> list[list[int]]:
    return [update["rollout.n"].tolist() for update in updates(batch)]


@given(hierarchies(), st.integers(1, 3), st.integers(1, 5), st.sampled_from(["group", "rollout"]), st.booleans())
@settings(deadline=None, max_examples=60)
def test_an_epoch_sees_every_rollout_once_in_whole_units(
    h: Hierarchy, epochs: int, mini_batches: int, unit: str, shuffle: bool
) -> None:
    batch = h.batch({"rollout.n": torch.arange(h.sizes["rollout"])})
    updates = Updates(epochs=epochs, mini_batches=mini_batches, unit=unit, shuffle=shuffle)
    steps = plan(updates, batch)
    parts = min(mini_batches, h.sizes[unit])
    assert len(steps) == epochs * parts
    for epoch in range(epochs):
        rows = steps[epoch * parts : (epoch + 1) * parts]
        assert sorted(r for step in rows for r in step) == list(range(len(batch)))
        if unit == "group":
            owners = [{h.rollouts[r] for r in step} for step in rows]
            assert sum(map(len, owners)) == h.sizes["group"]
        else:
            assert max(map(len, rows)) - min(map(len, rows)) <= 1


def test_as_many_mini_batches_as_asked_for_even_if_they_are_not_of_one_size() -> None:
    batch = Batch.from_rewards(torch.zeros(5), [0, 1, 2, 3, 4], {"rollout.n": torch.arange(5)})
    assert plan(Updates(mini_batches=4, shuffle=False), batch) == [[0, 1], [2], [3], [4]]


def test_mini_batches_differ_between_epochs_and_not_between_runs() -> None:
    batch = Batch.from_rewards(torch.zeros(64), torch.arange(64) // 2, {"rollout.n": torch.arange(64)})
    steps = plan(Updates(epochs=2, mini_batches=4), batch)
    assert steps == plan(Updates(epochs=2, mini_batches=4), batch)
    assert steps[:4] != steps[4:]
    ordered = plan(Updates(mini_batches=4, shuffle=False), batch)
    assert ordered == [list(range(16 * k, 16 * k + 16)) for k in range(4)]


def test_the_plan_does_not_depend_on_the_order_of_rows() -> None:
    batch = Batch.from_rewards(torch.zeros(12), [f"t{i // 2}" for i in range(12)], {"rollout.n": torch.arange(12)})
    moved = batch.take("rollout", torch.randperm(12, generator=torch.Generator().manual_seed(3)))
    updates = Updates(mini_batches=3)
    assert [set(step) for step in plan(updates, moved)] == [set(step) for step in plan(updates, batch)]


def test_groups_that_were_dropped_leave_no_empty_updates() -> None:
    batch = Batch.from_rewards(torch.zeros(6), [0, 0, 1, 1, 2, 2], {"rollout.n": torch.arange(6)})
    kept = batch.with_columns({"group.keep": torch.tensor([False, True, True])})
    assert sorted(map(tuple, plan(Updates(mini_batches=2), kept))) == [(2, 3), (4, 5)]
    assert plan(Updates(), batch.with_columns({"group.keep": torch.zeros(3, dtype=torch.bool)})) == []


def test_an_empty_answer_stays_in_its_update_for_it_may_be_counted() -> None:
    batch = Batch.from_padded(torch.tensor([[1, 1], [0, 0]]), [0, 1], {"rollout.n": torch.arange(2)})
    assert plan(Updates(), batch) == [[0, 1]]
