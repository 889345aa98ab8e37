"""Relations: pairs of rollouts that plans and parts bring into a batch, and their way through it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from podium.core import Batch, PodiumError, Relation, Rollout, Turn
from podium.core.activity import changed_elements
from podium.core.memory import decode_state, encode_state
from podium.core.part import Annotate, Columns
from podium.core.updates import Updates
from podium.memories.replay import join_batches
from podium.parts.advantage import PairwiseDifferences
from podium.testing import BatteryFailed, check


def rollout(task: str, index: int, pairs: dict[str, Any] | None = None) -> Rollout:
    return Rollout(task, [Turn([index])], columns={"index": index, "reward": 0.0}, pairs=pairs or {})


def judged() -> Batch:
    """Two groups that stand interleaved: a0 beats a2 by 0.5, a1 loses to a2 by 0.25, b1 beats b0 by 1."""
    return Batch.from_rollouts(
        [
            rollout("a", 0, {"right": [2], "difference": [0.5]}),
            rollout("b", 1, {"right": [0], "difference": [1.0]}),
            rollout("a", 2),
            rollout("b", 0),
            rollout("a", 1, {"right": [2], "difference": [-0.25]}),
        ]
    )


def verdicts(batch: Batch) -> list[tuple[int, int, float]]:
    pair = batch.relation("pair")
    return list(zip(pair.left.tolist(), pair.right.tolist(), pair["difference"].tolist(), strict=True))


def test_verdicts_of_rollouts_become_the_relation_pair() -> None:
    batch = judged()
    assert batch.relations == ("pair",)
    assert verdicts(batch) == [(0, 2, 0.5), (1, 3, 1.0), (4, 2, -0.25)]
    assert batch.relation("pair").level == "rollout"


def test_rollouts_that_nobody_compared_have_no_relation_and_empty_verdicts_an_empty_one() -> None:
    assert Batch.from_rollouts([rollout("a", 0)]).relations == ()
    alone = Batch.from_rollouts([rollout("a", 0, {"right": [], "difference": []})])
    assert verdicts(alone) == []
    assert alone.relation("pair")["difference"].is_floating_point()


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"right": [7], "difference": [1.0]}, "the one of index 7 in its group, which does not exist"),
        ({"right": [1, 1], "difference": [1.0]}, "different numbers of values for its pairs"),
        ({"difference": [1.0]}, "different numbers of values for its pairs"),
        ({"right": [1], "difference": [float("nan")]}, "'pair'.difference is nan at pair 0"),
    ],
)
def test_a_malformed_verdict_is_refused_in_one_sentence(pairs: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Batch.from_rollouts([rollout("a", 0, pairs), rollout("a", 1)])


def test_two_rollouts_of_one_index_cannot_be_told_apart() -> None:
    with pytest.raises(PodiumError, match="exists twice"):
        Batch.from_rollouts([rollout("a", 0, {"right": [1]}), rollout("a", 1), rollout("a", 1)])


class RewardDifferences(Annotate):
    """Each pair of rollouts of a group that count, once, with the difference of their rewards."""

    needs = ("rollout.reward",)
    provides = ("pair.difference",)

    def __call__(self, batch: Batch) -> Columns:
        reward, index, counted = batch["rollout.reward"], batch["rollout.index"], batch.counted("rollout")
        pair = batch.pairs("rollout", "group")
        kept = index[pair.left] < index[pair.right]
        if counted is not None:
            kept &= counted[pair.left] & counted[pair.right]
        left, right = pair.left[kept], pair.right[kept]
        return {"pair": Relation("rollout", left, right, {"difference": reward[left] - reward[right]})}


class Undeclared(RewardDifferences):
    """Writes verdicts without saying so."""

    provides = ()


class FirstRows(RewardDifferences):
    """Pairs the first two rows, whatever they are."""

    def __call__(self, batch: Batch) -> Columns:
        return {"pair": Relation("rollout", torch.tensor([0]), torch.tensor([1]), {"difference": torch.ones(1)})}


def test_a_part_may_return_a_relation() -> None:
    batch = Batch.from_rewards([0.0, 3.0, 1.0, 5.0, 4.0], ["a", "a", "a", "b", "b"])
    columns = RewardDifferences()(batch)
    assert changed_elements(batch, columns) == 4
    batch = batch.with_columns(columns)
    assert verdicts(batch) == [(0, 1, -3.0), (0, 2, -1.0), (1, 2, 2.0), (3, 4, 1.0)]
    advantage = PairwiseDifferences(epsilon=0.0)(batch)["rollout.advantage"]
    # Group b: d = 1 between two rollouts, so the mean is ±1/2 and the spread sqrt(2·1² / (2·2·1)).
    torch.testing.assert_close(advantage[3:], torch.tensor([0.5, -0.5]) / 0.5**0.5)


def test_a_relation_needs_a_name_of_its_own() -> None:
    batch = Batch.from_rewards([0.0, 1.0], ["a", "a"])
    pair = Relation("rollout", torch.tensor([0]), torch.tensor([1]))
    for name in ("rollout.pair", "rollout", "step"):
        with pytest.raises(PodiumError, match="A relation cannot be named"):
            batch.with_columns({name: pair})


def test_the_battery_knows_parts_that_write_relations() -> None:
    check(RewardDifferences())
    with pytest.raises(BatteryFailed, match="does not declare in its provides"):
        check(Undeclared())
    with pytest.raises(BatteryFailed, match="order"):
        check(FirstRows())


def test_mini_batches_keep_the_pairs_within_them() -> None:
    updates = list(Updates(mini_batches=2, shuffle=False)(judged()))
    assert [verdicts(update) for update in updates] == [[(0, 1, 0.5), (2, 1, -0.25)], [(0, 1, 1.0)]]


def test_a_relation_survives_the_state_of_a_memory() -> None:
    tensors: dict[str, torch.Tensor] = {}
    plain = json.loads(json.dumps(encode_state({"groups": judged()}, tensors)))
    assert verdicts(decode_state(plain, tensors)["groups"]) == verdicts(judged())


def test_replayed_rollouts_join_a_batch_with_a_relation_that_they_lack() -> None:
    fresh = judged()
    joined = join_batches(fresh, fresh.without_relations())
    assert verdicts(joined) == verdicts(fresh)
    assert verdicts(join_batches(fresh.without_relations(), fresh)) == [
        (left + 5, right + 5, d) for left, right, d in verdicts(fresh)
    ]
