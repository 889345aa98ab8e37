"""SPO's segments from iteration to iteration, and updates that have gone too far."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.memory import State, decode_state, encode_state
from podium.memories import WaitingSegments
from podium.parts.shape import RejectFar, TakeSegments, TrainShared
from tests.conformance.helpers import differentiate
from tests.methods.catalogue import lines

SUMS = worlds.get("sums", level=2)


def tree_rows(number: int, leaves: int = 3) -> list[Rollout]:
    """A tree of a root's `leaves` children with two leaves each, of one token a segment; half of all segments are
    worth something."""
    rows = []
    for row in range(2 * leaves):
        keys, credit = [row // 2, leaves + row], [float(row // 2 % 2), float(row % 2)]
        turn = Turn([1, 2], tokens={"node": [0, 1], "old.logp": [-1.0, -1.0]})
        nodes: dict[str, list[Any]] = {"key": keys, "advantage": credit}
        rows.append(Rollout(f"task {number}", [turn], columns={"reward": 1.0, "index": row}, nodes=nodes))
    return rows


def trees(number: int, leaves: int = 3, seed: int = 0) -> Batch:
    """The rollouts of one tree as a batch, each segment trained once."""
    batch = Batch.from_rollouts(tree_rows(number, leaves), dtype=torch.float64, seed=seed)
    return batch.with_columns(TrainShared("once")(batch))


def taken(memory: WaitingSegments, state: State, batch: Batch, count: int) -> tuple[State, list[Any]]:
    """An iteration: the state after it, and the segments that were trained, by task and key."""
    recalled = {k: v for k, v in memory.recall(state, ["task"]).items() if k.startswith("batch.")}
    batch = batch.with_columns(recalled)
    batch = batch.with_columns(TakeSegments(count)(batch))
    found = _names(batch)
    again = memory.replay(state, batch)
    return memory.observe(state, batch), found + ([] if again is None else _names(again))


def _names(batch: Batch) -> list[Any]:
    tasks, key = batch["group.task"], batch["node.key"].tolist()
    group = batch.link("node", "group").tolist()
    return [(tasks[group[i]], key[i]) for i in batch.trained("node").nonzero().reshape(-1).tolist()]


def test_every_segment_is_trained_once_and_no_iteration_trains_more_than_its_share() -> None:
    memory = WaitingSegments(max_age=10)
    state, seen = memory.initial(), []
    for number in range(4):
        state, found = taken(memory, state, trees(number, seed=number), count=3)
        assert len(found) == 3
        seen += found
    empty = trees(9)
    empty = empty.with_columns({"node.advantage": torch.zeros(empty.size("node"), dtype=torch.float64)})
    for seed in range(3):
        empty.seed = seed
        state, found = taken(memory, state, empty, count=3)
        seen += found
    credited = {(f"task {n}", key) for n in range(4) for key in (1, 4, 6, 8)}
    assert sorted(seen) == sorted(credited)
    assert state["rows"] is None


def test_today_and_earlier_segments_are_drawn_at_the_same_rate() -> None:
    """Of 40 that wait and 40 of today 20 are trained, 10 of each."""
    memory = WaitingSegments()
    state, _ = taken(memory, memory.initial(), trees(0, leaves=31), count=6)
    waiting = float(memory.recall(state, ["task"])["batch.replay.stored"])
    batch = trees(1, leaves=27, seed=1).with_columns({"batch.replay.stored": torch.tensor([waiting])})
    today = TakeSegments(20)(batch)
    assert waiting == 40
    assert int(today["node.keep.taken"].sum()) == 10
    assert float(today["batch.segments.missing"]) == 10
    again = memory.replay(state, batch.with_columns(today))
    assert again is not None
    assert len(_names(again)) == 10


def test_while_there_are_fewer_than_an_iteration_takes_nothing_waits() -> None:
    memory = WaitingSegments()
    state, found = taken(memory, memory.initial(), trees(0), count=4)
    assert len(found) == 4
    assert state["rows"] is None
    batch = trees(0).with_columns({"batch.replay.stored": torch.zeros(1)})
    assert TakeSegments(7)(batch)["batch.segments.missing"].tolist() == [3.0]


def test_segments_of_trained_rollouts_wait_as_many_as_there_is_room_for() -> None:
    """Of four segments with an advantage one is taken, and three wait, each in a rollout of its own."""
    batch = trees(0).with_columns({"batch.replay.stored": torch.zeros(1)})
    batch = batch.with_columns(TakeSegments(1)(batch))
    waiting = batch.partition("node", "rollout").agg.any(batch["node.waiting"])
    assert int(waiting.sum()) == 3

    def stored(size: int, batch: Batch) -> int:
        rows = WaitingSegments(size=size).observe(WaitingSegments().initial(), batch)["rows"]
        return 0 if rows is None else len(rows)

    assert [stored(size, batch) for size in (3, 2)] == [3, 2]
    first = int(waiting.nonzero()[0])
    purpose = torch.zeros(len(batch), dtype=torch.long).index_fill(0, torch.tensor([first]), int(Purpose.replaced))
    assert stored(3, batch.with_columns({"rollout.purpose": purpose})) == 2


def test_what_is_too_old_is_forgotten() -> None:
    at_once, memory = WaitingSegments(max_age=0), WaitingSegments(max_age=1)
    assert taken(at_once, at_once.initial(), trees(0), count=1)[0]["rows"] is None
    state, _ = taken(memory, memory.initial(), trees(0), count=1)
    state, _ = taken(memory, state, trees(1, seed=1), count=1)
    assert set(state["rows"]["rollout.stored"].tolist()) == {2}


def test_segments_that_wait_come_back_from_a_checkpoint_with_the_log_probabilities_of_their_time() -> None:
    memory = WaitingSegments()
    state, _ = taken(memory, memory.initial(), trees(0), count=1)
    tensors: dict[str, torch.Tensor] = {}
    copy = decode_state(encode_state(state, tensors), tensors)
    batch = trees(1, seed=5).with_columns({"batch.segments.missing": torch.tensor([2.0])})
    one, two = memory.replay(state, batch), memory.replay(copy, batch)
    assert one is not None
    assert two is not None
    assert all(torch.equal(one[c], two[c]) for c in one.columns if isinstance(one[c], torch.Tensor))
    assert set(one["token.old.logp"].tolist()) == {-1.0}


def test_spo_leaves_segments_for_the_next_iteration_and_takes_them_then() -> None:
    method = methods.spo(n=4, branches=(2,), window=6, temperature=1.0, segments=3, per_task=False, mini_batches=1)
    found = lines(method, SUMS, iterations=3)
    assert found[0]["replay.stored"] == 0
    assert found[1]["replay.stored"] > 0
    assert sum(line["replayed"] for line in found) > 0


def test_segments_that_wait_are_on_the_scale_of_all_of_their_iteration() -> None:
    """A draw of one segment has no variance of its own to divide by."""
    parts = [type(part).__name__ for part in methods.spo().shape]
    assert parts.index("Whiten") < parts.index("TakeSegments")
    found = lines(methods.spo(n=3, branches=(2,), window=6, temperature=1.0, segments=1), SUMS, iterations=3)
    assert all(line["grad_norm.policy"] < 1000 for line in found)


def test_spo_without_a_limit_trains_the_segments_of_its_own_trees() -> None:
    """As many as there are at most: the same update."""
    known: dict[str, Any] = {"n": 3, "branches": (2,), "window": 6, "temperature": 1.0}
    one_step = {"mini_batches": 1, "per_task": False}
    all_, many = (lines(methods.spo(**known, **one_step, segments=count), SUMS)[0] for count in (None, 512))
    assert all_["grad_norm.policy"] == pytest.approx(many["grad_norm.policy"], rel=1e-5)


# -- updates that have gone too far ------------------------------------------------------------------------------------


def ratios(*values: float) -> Batch:
    now = torch.tensor([values], dtype=torch.float64).log()
    columns = {"token.now.logp": now, "token.old.logp": torch.zeros_like(now), "token.advantage": torch.ones_like(now)}
    return Batch.from_padded(torch.ones_like(now), [0], columns)


def test_an_update_whose_mean_ratio_is_above_ten_is_left_out() -> None:
    terms = methods.spo("chain").objective[:1]
    near, far = ratios(1.0, 19.0), ratios(1.0, 19.1)
    assert differentiate(terms, near, live=[RejectFar()]).step.loss != 0
    left = differentiate(terms, far, live=[RejectFar()])
    assert left.step.loss == 0
    assert not bool(left.grad_logp.any())


def test_tokens_that_are_not_trained_do_not_count_in_the_mean_ratio() -> None:
    batch = ratios(1.0, 100.0)
    batch = batch.with_columns({"token.keep.unsure": torch.tensor([True, False])})
    assert RejectFar()(batch)["batch.weight.near"].tolist() == [1.0]


def test_one_token_counts_for_no_more_than_its_clamped_ratio() -> None:
    batch = ratios(*([1.0] * 9), 1e9)
    assert RejectFar(above=20.0, clamp=5.0)(batch)["batch.weight.near"].tolist() == [1.0]  # (9 + e⁵) / 10
    assert RejectFar(above=20.0)(batch)["batch.weight.near"].tolist() == [0.0]


def test_spo_looks_at_the_mean_ratio_where_a_batch_has_several_updates() -> None:
    guards = [
        [p for p in m.shape if isinstance(p, RejectFar)] for m in (methods.spo("chain"), methods.spo(mini_batches=1))
    ]
    assert guards == [[RejectFar()], []]
    several = methods.spo(mini_batches=4, max_ratio=5.0)
    assert several.shape[-1] == RejectFar(5.0)


def test_a_budget_may_be_for_each_task() -> None:
    """Of the six credited segments of two tasks one is trained, or one for each task; none is missing."""
    rows = [row for number in range(2) for row in tree_rows(number)]
    batch = Batch.from_rollouts(rows, dtype=torch.float64).with_columns({"batch.replay.stored": torch.zeros(1)})
    found_by = {per: TakeSegments(1, per)(batch) for per in (False, True)}
    assert [int(found["node.keep.taken"].sum()) for found in found_by.values()] == [1, 2]
    assert [float(found["batch.segments.missing"]) for found in found_by.values()] == [0.0, 0.0]
