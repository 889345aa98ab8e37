"""Mini-batches that are measured in rollouts, or in the share of a kind of group."""

from __future__ import annotations

import pytest
import torch

from podium import methods
from podium.core import Batch
from podium.core.updates import Updates
from podium.parts.updates import FixedSize, SeparateUpdates


def batch_of(groups: int, sampled: int, given: int, kept: list[int]) -> Batch:
    """Groups of sampled rollouts and demonstrations; `kept` are the numbers of the rows that are trained."""
    size = sampled + given
    rows = torch.arange(groups * size)
    return Batch.from_rewards(torch.zeros(len(rows)), (rows // size).tolist()).with_columns(
        {
            "rollout.n": rows,
            "rollout.sampled": rows % size < sampled,
            "rollout.keep.route": torch.isin(rows, torch.tensor(kept)),
        }
    )


def sizes(updates: Updates, batch: Batch) -> list[int]:
    return [len(update) for update in updates(batch)]


def test_a_task_that_is_imitated_leaves_one_row_and_makes_a_batch_take_fewer_steps() -> None:
    """4 tasks of 4 rollouts and a demonstration: a mini-batch has 16 / 2 = 8 rows. As in HPT's release, 16 rows take
    two steps, two imitated tasks leave 8 + 2 rows for two steps, and four leave 4 rows for one."""
    updates = methods.hpt(n=4).updates
    reinforced = [5 * g + i for g in range(4) for i in range(4)]
    assert sizes(updates, batch_of(4, 4, 1, reinforced)) == [8, 8]
    assert sizes(updates, batch_of(4, 4, 1, [*reinforced[:8], 14, 19])) == [8, 2]
    assert sizes(updates, batch_of(4, 4, 1, [4, 9, 14, 19])) == [4]


def test_rows_that_are_masked_take_places_and_a_smaller_mini_batch_counts_less() -> None:
    """4 tasks of 10 rollouts and a demonstration: 44 rows in mini-batches of 40 / 4 = 10 are four full steps and a
    fifth of 4 rows, which weighs 4 / 10, as in CalibRL's release (5,280 rows in pieces of 1,200)."""
    sampled = [row for row in range(44) if row % 11 < 10]
    steps = list(methods.calibrl().updates(batch_of(4, 10, 1, sampled)))
    assert [len(step) for step in steps] == [10, 10, 10, 10, 4]
    assert steps[0]["rollout.weight.taken"].unique().tolist() == [1.0]
    assert steps[-1]["rollout.weight.taken"].tolist() == pytest.approx([0.4] * 4)
    trained = torch.cat([step["rollout.n"][step.trained("rollout", empty=True)] for step in steps])
    assert sorted(trained.tolist()) == sampled


def test_a_mini_batch_in_which_nothing_is_trained_is_no_step() -> None:
    batch = batch_of(2, 2, 1, [0, 1])
    assert sizes(FixedSize(mini_batches=2, shuffle=False, masked=True), batch) == [2]


def test_groups_can_be_counted_in_place_of_rollouts() -> None:
    """4 groups in mini-batches of 4 / 2 = 2; one that is dropped leaves 2 + 1."""
    updates = FixedSize(mini_batches=2, unit="group")
    batch = batch_of(4, 4, 1, list(range(20)))
    dropped = batch.with_columns({"group.keep.some": torch.tensor([True, True, True, False])})
    assert [step.size("group") for step in updates(batch)] == [2, 2]
    assert [step.size("group") for step in updates(dropped)] == [2, 1]


def test_a_quarter_of_labelled_tasks_takes_one_of_three_steps() -> None:
    """16 tasks in mini-batches of 8: the 4 labelled ones take ⌈2 · 1/4⌉ = 1 step, the others ⌈2 · 3/4⌉ = 2."""
    batch = Batch.from_rewards(torch.zeros(16), list(range(16)))
    batch = batch.with_columns({"group.labelled": torch.arange(16) < 4})
    assert sizes(methods.trapo().updates, batch) == [4, 6, 6]
    assert sizes(SeparateUpdates(mini_batches=2), batch) == [2, 2, 6, 6]
