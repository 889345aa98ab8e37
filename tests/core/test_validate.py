"""Bad input at the door of the batch: one clear error each, which names the thing and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from podium.core import Batch, PodiumError, Relation, Signal

GROUP = {("rollout", "group"): torch.tensor([0, 0, 1])}


def index(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({("token", "rollout"): index(0)}, r"needs the group of each rollout: links\['rollout', 'group'\]"),
        ({("rollout", "group"): index()}, "The batch is empty: it has no rollouts"),
        ({("rollout", "group"): index(0, 2)}, "Group 1 has no rollouts: number the groups 0 to n − 1 without holes"),
        ({("rollout", "group"): index(0, -1)}, r"belongs to group -1, but there are 1 groups \(0 to 0\)"),
        ({("rollout", "group"): torch.tensor([0.0])}, "must be a vector of int64, not torch.float32"),
        ({("rollout", "group"): torch.zeros(2, 2).long()}, r"must be a vector of int64, not torch.int64 \(2, 2\)"),
        (
            GROUP | {("token", "rollout"): index(0, 3)},
            r"A token belongs to rollout 3, but there are 3 rollouts \(0 to 2\)",
        ),
        (GROUP | {("token", "rollout"): index(1, 0)}, "tokens must stand in the order of their rollouts"),
        (
            GROUP | {("token", "rollout"): index(0).to("meta")},
            "token to rollout is on meta, the batch on cpu: move one",
        ),
        (
            GROUP | {("token", "turn"): index(0, 1), ("token", "rollout"): index(0)},
            "The links of token have different lengths: 2 and 1",
        ),
        (
            GROUP
            | {("token", "turn"): index(0, 1), ("turn", "rollout"): index(0, 1), ("token", "rollout"): index(0, 0)},
            "The tokens belong to different rollouts by",
        ),
        (GROUP | {("turn", "segment"): index(0)}, "'turn' is not joined to the rollouts"),
        (GROUP | {("turn", "rollout"): index(0), ("group", "turn"): index(0, 0)}, "The links form a circle"),
    ],
)
def test_links_that_cannot_be_a_hierarchy_are_refused(links: dict[tuple[str, str], Tensor], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Batch(links)


def test_sizes_that_contradict_the_links_are_refused() -> None:
    with pytest.raises(PodiumError, match="4 rollouts were announced, but the links have 3"):
        Batch(GROUP, sizes={"rollout": 4})
    with pytest.raises(PodiumError, match="no link for the level 'trun'"):
        Batch(GROUP, sizes={"trun": 4})
    with pytest.raises(PodiumError, match="Group 2 has no rollouts"):
        Batch(GROUP, sizes={"group": 3})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("reward", [1.0, 2.0, 3.0], "must be named level.name"),
        ("rolout.reward", [1.0, 2.0, 3.0], "Did you mean 'rollout'"),
        ("rollout.reward", [1.0, 2.0], "'rollout.reward' has 2 values, but the batch has 3 rollouts"),
        ("rollout.reward", torch.ones(3, device="meta"), r"is on meta, the batch on cpu: move one with .to\(...\)"),
        ("rollout.reward", torch.tensor([1, 0, 1]), r"holds torch.int64; give floating-point numbers \(x.float\(\)\)"),
        ("rollout.reward", [1.0, float("inf"), 0.0], "is inf at rollout 1: NaN and infinite values are refused"),
        ("rollout.reward.format", [1.0, float("nan"), 0.0], "'rollout.reward.format' is nan at rollout 1"),
        ("rollout.reward", ["high", "low", "low"], "holds objects; give floating-point numbers"),
        ("rollout.advantage", torch.full((3,), torch.nan), "'rollout.advantage' is nan at rollout 0"),
        ("rollout.weight.age", torch.tensor([1.0, -torch.inf, 1.0]), "'rollout.weight.age' is -inf at rollout 1"),
        (Signal("value", of="old", level="rollout"), torch.tensor([0.0, 0.0, torch.nan]), "'rollout.old.value' is nan"),
        ("rollout.keep", [1.0, 0.0, 1.0], "'rollout.keep' holds torch.float32; give True where a rollout is kept"),
        ("group.keep.mixed", ["yes", "no"], "'group.keep.mixed' holds objects; give True"),
        ("rollout.answer", "abc", "'rollout.answer' has 1 values"),
        ("rollout.purpose", torch.tensor([0, 1, 6]), r"'rollout.purpose' holds something else than train \(0\)"),
        ("rollout.purpose", torch.tensor([0.0, 1.0, 2.0]), "'rollout.purpose' holds something else"),
        ("rollout.purpose", ["train", "train", "baseline "], "Did you mean 'baseline'"),
    ],
)
def test_a_column_that_cannot_be_is_refused_wherever_it_comes_in(name: Any, value: Any, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Batch(GROUP).with_columns({name: value})
    column = name.column if isinstance(name, Signal) else name
    with pytest.raises(PodiumError, match=message):
        Batch(GROUP, {column: value})


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda b: b["rollout.rewrd"], "no column 'rollout.rewrd'. Did you mean 'rollout.reward'"),
        (lambda b: b["token.id"], "no column 'token.id'"),
        (lambda b: b.by("rollot"), "no level 'rollot'. Did you mean 'rollout'"),
        (lambda b: b.by("rollout", "grop"), "No level or column 'grop' at or above 'rollout'. Did you mean 'group'"),
        (lambda b: b.by("rollout", "step"), "no level 'turn'"),
        (lambda b: b.by("rollout", torch.tensor([1])), "A key has 1 codes for the 3 rollouts"),
        (lambda b: b.by("rollout", where=torch.ones(3)), "where is torch.float32: it must be boolean"),
        (lambda b: b.with_columns({"rollout.x": [{}, {}, {}]}).by("rollout", "x"), "'rollout.x' cannot be a key"),
    ],
)
def test_names_and_keys_that_are_not_there_get_the_nearest_ones(read, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PodiumError, match=message):
        read(Batch(GROUP, {"rollout.reward": torch.ones(3)}))


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        (Relation("rollout", index(0), index(3)), "names a rollout that does not exist"),
        (Relation("rollout", index(-1), index(0)), "names a rollout that does not exist"),
        (Relation("rollot", index(0), index(0)), "joins 'rollot'. Did you mean 'rollout'"),
        (Relation("rollout", index(0, 1), index(0)), "columns of different lengths"),
        (Relation("rollout", index(0), index(1), {"d": torch.ones(2)}), "columns of different lengths"),
        (Relation("rollout", index(0), index(1).to("meta")), "'pair'.right is on meta, the batch on cpu"),
    ],
)
def test_a_relation_that_cannot_be_is_refused(relation: Relation, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Batch(GROUP).with_relation("pair", relation)
    with pytest.raises(PodiumError, match=message):
        Batch(GROUP, relations={"pair": relation})


def test_a_value_of_the_whole_batch_may_be_a_bare_number_or_text() -> None:
    batch = Batch(GROUP).with_columns({"batch.kl": 0.5, "batch.name": "run", "batch.x": torch.tensor(2.0)})
    assert batch["batch.kl"].tolist() == [0.5]
    assert batch["batch.name"] == ("run",)
    assert batch["batch.x"].tolist() == [2.0]
