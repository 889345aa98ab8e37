"""Parts of a batch, and several batches as one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings

from podium.core import Batch, PodiumError, Relation, Rollout, Turn
from tests.core.hierarchy import Hierarchy, hierarchies, runs


def numbered(h: Hierarchy, offset: int = 0) -> Batch:
    """A batch whose columns say which element each one was."""
    columns = {f"{level}.n": torch.arange(h.sizes[level]) + offset for level in ("token", "turn", "rollout", "group")}
    return h.batch(columns | {"rollout.name": [f"r{i + offset}" for i in range(h.sizes["rollout"])]})


def content(batch: Batch) -> list[tuple[int, str, list[tuple[int, list[int]]]]]:
    """(group, name, turns with tokens) of each rollout, from the columns alone."""
    turns = runs_of(batch, "turn", "rollout")
    tokens = runs_of(batch, "token", "turn")
    group = batch["group.n"][batch.link("rollout", "group")].tolist()
    return [
        (
            group[r],
            batch["rollout.name"][r],
            [(int(batch["turn.n"][t]), [int(batch["token.n"][i]) for i in tokens[t]]) for t in turns[r]],
        )
        for r in range(len(batch))
    ]


def runs_of(batch: Batch, child: str, parent: str) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(batch.size(parent))]
    for i, up in enumerate(batch.link(child, parent).tolist()):
        found[up].append(i)
    return found


@given(hierarchies())
@settings(deadline=None, max_examples=60)
def test_taken_rollouts_keep_all_that_they_hold_in_the_wanted_order(h: Hierarchy) -> None:
    batch = numbered(h)
    everything = content(batch)
    chosen = [i for i in range(len(batch)) if h.random.random() < 0.6] or [0]
    h.random.shuffle(chosen)
    taken = batch.take("rollout", torch.tensor(chosen))
    assert content(taken) == [everything[i] for i in chosen]
    assert taken.size("group") == len({h.rollouts[i] for i in chosen})
    mask = torch.zeros(len(batch), dtype=torch.bool)
    mask[chosen] = True
    assert content(batch.take("rollout", mask)) == [everything[i] for i in sorted(chosen)]
    validated(taken)


@given(hierarchies())
@settings(deadline=None, max_examples=60)
def test_taken_groups_may_be_reordered_and_repeated(h: Hierarchy) -> None:
    batch = numbered(h)
    everything, members = content(batch), runs(h.rollouts)
    held = {h.rollouts[m[0]]: m for m in members}
    chosen = [h.random.randrange(batch.size("group")) for _ in range(h.random.randrange(1, 5))]
    taken = batch.take("group", torch.tensor(chosen))
    assert content(taken) == [everything[i] for g in chosen for i in held[g]]
    assert taken.size("group") == len(chosen)
    validated(taken)


def validated(batch: Batch) -> None:
    """The batch passes the door again."""
    Batch(batch._links, batch._columns, sizes=batch._sizes, relations=batch._relations)


@given(hierarchies(), hierarchies())
@settings(deadline=None, max_examples=40)
def test_concat_puts_one_batch_after_another_and_take_parts_them_again(a: Hierarchy, b: Hierarchy) -> None:
    first, second = numbered(a), numbered(b, offset=1000)
    joined = Batch.concat([first, second])
    assert content(joined) == content(first) + content(second)
    assert joined.size("group") == first.size("group") + second.size("group")
    rows = torch.arange(len(joined))
    assert content(joined.take("rollout", rows[len(first) :])) == content(second)
    validated(joined)


def test_two_groups_of_one_task_stay_apart_when_joined() -> None:
    batch = Batch.from_rewards([1.0, 0.0], ["a", "a"])
    joined = Batch.concat([batch, batch])
    assert joined.link("rollout", "group").tolist() == [0, 0, 1, 1]
    assert joined["group.task"] == ("a", "a")


def test_a_named_level_and_a_relation_come_along() -> None:
    batch = Batch.from_padded(torch.ones(3, 2), [0, 0, 1], {"token.x": torch.arange(6.0).reshape(3, 2)})
    batch = batch.with_level("segment", torch.tensor([0, 1, 2, 2, 3, 4])).with_step("segment")
    pair = Relation("rollout", torch.tensor([0, 2]), torch.tensor([1, 1]), {"d": torch.tensor([5.0, 7.0])})
    batch = batch.with_relation("pair", pair)
    taken = batch.take("rollout", torch.tensor([2, 1]))
    assert taken.link("token", "segment").tolist() == [0, 1, 2, 2]
    assert taken.size("step") == 3
    assert taken["token.x"].tolist() == [4, 5, 2, 3]
    assert (taken.relation("pair").left.tolist(), taken.relation("pair").right.tolist()) == ([0], [1])
    assert taken.relation("pair")["d"].tolist() == [7]
    joined = Batch.concat([batch, batch])
    assert joined.relation("pair").left.tolist() == [0, 2, 3, 5]
    assert joined.relation("pair")["d"].tolist() == [5, 7, 5, 7]


def test_contexts_of_turns_and_columns_of_the_batch_come_along() -> None:
    rows = [Rollout("a", [Turn([1, 2], context=[9]), Turn([3], context=[9, 1, 2, 8])]), Rollout("b", [Turn([4])])]
    batch = Batch.from_rollouts(rows).with_columns({"batch.mean": 0.5})
    taken = batch.take("rollout", torch.tensor([1, 0]))
    assert taken["turn.context"] == ((), (9,), (9, 1, 2, 8))
    assert taken["batch.mean"].tolist() == [0.5]
    assert Batch.concat([batch, taken])["batch.mean"].tolist() == [0.5]


def refused(batches: Sequence[Batch], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Batch.concat(batches)


def test_batches_that_do_not_fit_together_are_refused() -> None:
    batch = Batch.from_rewards([1.0, 0.0], [0, 1])
    refused([], "Nothing to concatenate")
    refused([batch, batch.with_columns({"rollout.x": torch.ones(2)})], "different columns cannot be joined: rollout.x")
    refused([batch, Batch.from_padded(torch.ones(1, 1), [0], {"rollout.reward": torch.ones(1)})], "different levels")
    pair = Relation("rollout", torch.tensor([0]), torch.tensor([1]))
    refused([batch, batch.with_relation("pair", pair)], "different relations cannot be joined: pair")
    refused([batch, batch.to("meta")], "on cpu and on meta cannot be joined")
    named = [batch.with_columns({"rollout.answer": x}) for x in ([1, 2], ["a", "b"])]
    refused(named, "'rollout.answer' holds numbers in one batch and objects in another")
    refused([batch.with_columns({"batch.q": x}) for x in (0.5, 0.6)], "'batch.q' differs between the batches")


def test_columns_of_the_batch_that_are_undefined_in_both_are_the_same() -> None:
    batch = Batch.from_rewards([1.0], [0]).with_columns({"batch.q": torch.tensor([[float("nan"), 1.0]])})
    assert Batch.concat([batch, batch])["batch.q"].shape == (1, 2)


@pytest.mark.parametrize(
    ("level", "chosen", "message"),
    [
        ("token", [0], r"not single tokens: to leave a token out of the training, write a column 'token.keep'"),
        ("turn", [0], "not single turns"),
        ("batch", [0], "Whole rollouts or groups can be taken"),
        ("rollout", [], "Nothing is left: no rollout was chosen"),
        ("rollout", [False, False], "Nothing is left"),
        ("rollout", [True], "The mask has 1 values, but the batch has 2 rollouts"),
        ("rollout", [0, 2], "must be integers from 0 to 1"),
        ("rollout", [-1], "must be integers from 0 to 1"),
        ("rollout", [0.0], "must be integers"),
        ("rollout", [0, 0], "Only whole groups can be repeated; a rollout was chosen twice"),
    ],
)
def test_what_cannot_be_taken_is_refused(level: str, chosen: list[object], message: str) -> None:
    batch = Batch.from_padded(torch.ones(2, 2), [0, 1])
    with pytest.raises(PodiumError, match=message):
        batch.take(level, torch.tensor(chosen))
