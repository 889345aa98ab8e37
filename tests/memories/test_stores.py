"""Memories that store texts, lessons and rollouts, by numbers worked out by hand."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.memories import (
    InFlight,
    LessonLibrary,
    SolvedTasks,
    SolvedTexts,
    StoredResponses,
    StoredRollouts,
    SuccessReplay,
    Transitions,
)
from podium.memories.replay import Kept
from tests.batches import sampled


def written(*rows: tuple[str, list[int], float], purpose: int = 0, **columns: list[object]) -> Batch:
    """Rollouts (task, ids, reward)."""
    rollouts = []
    for number, (task, ids, reward) in enumerate(rows):
        own = {name: values[number] for name, values in columns.items()}
        known = {"reward": reward, "correct": reward > 0, "purpose": purpose, "index": number, **own}
        rollouts.append(Rollout(task, [Turn(ids)], columns=known))
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def test_answers_to_tasks_that_were_hard_in_a_round_are_known_in_the_next() -> None:
    memory = SolvedTexts(iterations=2, at_most=0.5)
    first = memory.observe(
        memory.initial(), written(("a", [1], 1.0), ("a", [2], 0.0), ("b", [3], 1.0), ("c", [4], 0.0))
    )
    assert first["done"] == 1
    assert first["solved"] == memory.initial()["solved"]
    assert first["seen"] == {"a": (2, 1, ((1,),)), "b": (1, 1, ((3,),)), "c": (1, 0, ())}
    second = memory.observe(first, written(("a", [5], 1.0), ("a", [6], 0.0)))
    # a: 2 of 4 is at most half; b always succeeded, c never.
    assert second["done"] == 2
    assert second["seen"] == {}
    assert second["solved"] == {"a": ((1,), (5,))}
    assert memory.recall(second, ["b", "a"])["group.solved"] == ((), ((1,), (5,)))
    once = memory.observe(first, written(("d", [7], 1.0), ("d", [8], 0.0)))
    assert once["solved"] == {"a": ((1,),), "d": ((7,),)}  # one of two is enough, and is at most half
    measuring = written(("a", [1], 1.0), purpose=int(Purpose.vote))
    assert memory.observe(first, measuring) == first


def test_examples_are_the_newest_solutions() -> None:
    memory = SolvedTasks(size=2, longest=4)
    columns = {"prompt": ["q1", "q1", "q2", "q3"], "text": ["later", "early", "wrong", "probe"]}
    batch = sampled([1.0, 1.0, 0.0, 1.0], [0, 0, 1, 2], "abc", (3,), **columns)
    state = memory.observe({"solved": (("q0", "old"), ("q9", "older"))}, batch)
    assert state["solved"] == (("q9", "older"), ("q1", "earl"))
    assert memory.recall(state, ["a"])["batch.solved"] == ((("q9", "older"), ("q1", "earl")),)


def test_lessons_are_shown_once_there_are_enough() -> None:
    def acted(actions: list[str], reward: float) -> Batch:
        turns = [Turn((1,), columns={"action": a, "state": f"at {a}", "observation": f"at {a}"}) for a in actions]
        return Batch.from_rollouts(
            [Rollout(0, turns, columns={"reward": reward, "prompt": "a house"})], dtype=torch.float64
        )

    memory = LessonLibrary(after=2, least=3, excellent=0.8)
    state = memory.observe(memory.initial(), acted(["go", "look"], 1.0))
    # A method, an example and a principle.
    assert state["iterations"] == 1
    assert {level: len(rows) for level, rows in state["levels"].items()} == {"method": 1, "example": 1, "principle": 1}
    assert memory.recall(state, ["a"])["group.lessons"] == (None,)
    assert memory.recall(state, ["a"])["batch.lessons"].tolist() == [3.0]
    shown = memory.recall({**state, "iterations": 2}, ["a", "b"])["group.lessons"]
    assert len(shown) == 2
    assert shown[0] is not None
    assert len(shown[0]) == 3
    assert memory.replace(least=4).recall({**state, "iterations": 2}, ["a"])["group.lessons"] == (None,)
    assert memory.recall({**memory.initial(), "iterations": 5}, ["a"])["group.lessons"] == (None,)
    assert memory.replace(least=0).recall({**memory.initial(), "iterations": 5}, ["a"])["group.lessons"] == (None,)
    second = memory.observe(state, acted(["go", "look"], 1.0))
    assert second["iterations"] == 2
    # A failure teaches a mistake, a repeated action and how long it took; two new lessons are the most here.
    few = LessonLibrary(new_warnings=3)
    both = Batch.from_rollouts(
        [
            Rollout(
                0,
                [Turn((1,), columns={"action": a, "state": a, "observation": a}) for a in actions],
                columns={"reward": 0.0, "prompt": "a house"},
            )
            for actions in (["north", "north"], ["drop lamp", "sing aloud", "drop lamp", "wait here"])
        ],
        dtype=torch.float64,
    )
    one = few.observe(few.initial(), both)
    assert sum(len(rows) for rows in one["levels"].values()) == 3
    more = few.replace(new_warnings=4).observe(few.initial(), both)
    assert sum(len(rows) for rows in more["levels"].values()) > 3


def test_known_observations_are_counted_and_further_successes_are_examined_up_to_a_number() -> None:
    def acted(*episodes: list[str]) -> Batch:
        rollouts = [
            Rollout(
                0,
                [Turn((1,), columns={"action": a, "state": f"at {a}", "observation": f"at {a}"}) for a in actions],
                columns={"reward": 1.0, "prompt": "a house"},
            )
            for actions in episodes
        ]
        return Batch.from_rollouts(rollouts, dtype=torch.float64)

    memory = LessonLibrary()
    assert memory.recall(memory.initial(), ["a"])["batch.lessons.found"].tolist() == [0.0]
    state = memory.observe(memory.initial(), acted(["go", "look"]))
    assert state["found"] == 0.0
    later = memory.observe(state, acted(["go", "go", "look", "sing"]))
    assert later["found"] == 0.75  # three of four observations were met before
    assert memory.recall(later, ["a"])["batch.lessons.found"].tolist() == [0.75]
    assert memory.observe(state, acted(["look"]))["found"] == 1.0

    def lessons(new_golden: int) -> int:
        few = memory.replace(new_golden=new_golden)
        found = few.observe(few.initial(), acted(["go", "look"], ["dig here", "lift stone", "open box"]))
        return sum(len(rows) for rows in found["levels"].values())

    assert lessons(3) == 3  # a success teaches three
    assert lessons(4) > 3


def test_transitions_keep_the_newest_turns() -> None:
    memory = Transitions(turns=2)
    first = memory.observe(memory.initial(), written(("a", [1], 1.0), ("a", [2], 0.0)))
    assert first["iteration"] == 1
    assert len(first["rows"]) == 2
    second = memory.observe(first, written(("b", [3], 1.0)))
    assert second["iteration"] == 2
    assert len(second["rows"]) == 2
    assert second["rows"]["token.id"].tolist()[-1] == 3
    third = memory.observe(second, written(("b", [4], 1.0), purpose=int(Purpose.probe)))
    assert third["iteration"] == 3
    assert third["rows"]["token.id"].tolist() == second["rows"]["token.id"].tolist()


def test_unfinished_rollouts_wait_unless_they_are_probes() -> None:
    memory = InFlight()

    def batch(finished: list[bool], purpose: int) -> Batch:
        rows = [
            Rollout(
                "a",
                [Turn([n], tokens={"sampler.logp": [-1.0], "sampler.entropy": [0.5]})],
                columns={"reward": 0.0, "finished": done, "index": n, "purpose": purpose},
            )
            for n, done in enumerate(finished)
        ]
        return Batch.from_rollouts(rows, dtype=torch.float64)

    state = memory.observe(memory.initial(), batch([True, False], 0))
    assert state["tasks"] == {"a": (((1,), (-1.0,), (0.5,)),)}
    recalled = memory.recall(state, ["b", "a"])
    assert recalled["group.in_flight"] == ((), (((1,), (-1.0,), (0.5,)),))
    assert recalled["group.in_flight.count"].tolist() == [0.0, 1.0]
    assert memory.observe(memory.initial(), batch([True, False], int(Purpose.probe)))["tasks"] == {}
    plain = batch([True, False], 0).without(["rollout.purpose"])
    assert memory.observe(memory.initial(), plain) == state


def test_what_is_stored_is_counted() -> None:
    assert StoredResponses().recall(StoredResponses().initial(), ["a", "b"])["group.policy_shift"].tolist() == [
        0.0,
        0.0,
    ]

    class Nothing(Kept):
        pass

    empty = Nothing().recall({"rows": None}, ["a", "b"])
    assert empty["group.fresh"].tolist() == [True, True]
    assert empty["batch.replay.stored"].tolist() == [0.0]
    held = Nothing().recall({"rows": written(("a", [1], 1.0), ("a", [2], 0.0))}, ["a"])
    assert held["batch.replay.stored"].tolist() == [2.0]
    memory = StoredRollouts(most=2)
    known = memory.recall({"rollouts": {}, "counts": {"a": (1, 4)}}, ["a", "b"])
    assert known["group.stored"] == ((), ())
    assert known["group.stored.mean"].tolist() == [0.25, 1.0]


def test_fresh_rollouts_that_count_are_stored_and_counted_by_task() -> None:
    def batch(*rows: tuple[str, float, bool, int]) -> Batch:
        rollouts = [
            Rollout(
                task,
                [Turn([n], context=[9], tokens={"sampler.logp": [-1.0], "sampler.entropy": [0.5]})],
                columns={
                    "reward": reward,
                    "correct": reward > 0,
                    "text": f"text {n}",
                    "answer": "",
                    "truncated": False,
                    "fresh": fresh,
                    "index": n,
                    "purpose": purpose,
                },
            )
            for n, (task, reward, fresh, purpose) in enumerate(rows)
        ]
        return Batch.from_rollouts(rollouts, dtype=torch.float64)

    probe = int(Purpose.probe)
    memory = StoredRollouts(most=1)
    rows = [("a", 1.0, True, 0), ("a", 0.0, True, 0), ("b", 1.0, False, 0), ("b", 1.0, True, probe)]
    first = memory.observe(memory.initial(), batch(*rows))
    assert first["counts"] == {"a": (1, 2)}
    assert [kept["text"] for kept in first["rollouts"]["a"]] == ["text 0", "text 1"]
    second = memory.observe(first, batch(("c", 1.0, True, 0), ("a", 0.0, True, 0), ("a", 1.0, True, 0)))
    assert second["counts"] == {"a": (2, 4), "c": (1, 1)}
    assert [kept["text"] for kept in second["rollouts"]["a"]] == ["text 2", "text 1"]  # the newest of each
    assert [kept["ids"] for kept in second["rollouts"]["a"][0]["turns"]] == [(2,)]
    assert memory.recall(second, ["a", "c", "b"])["group.stored.mean"].tolist() == [0.5, 1.0, 1.0]
    plain = batch(*rows[:3]).without(["rollout.purpose"])
    assert memory.observe(memory.initial(), plain)["counts"] == {"a": (1, 2)}


def test_the_means_of_groups_are_remembered_up_to_a_number() -> None:
    def batch(*rows: tuple[str, float], probe: str = "") -> Batch:
        rollouts = [
            Rollout(
                task,
                [Turn([1], tokens={"old.logp": [-1.0], "sampler.logp": [-1.0]})],
                columns={
                    "reward": r,
                    "correct": r > 0,
                    "advantage": 0.0,
                    "index": i,
                    "purpose": int(Purpose.probe if task == probe else Purpose.train),
                },
            )
            for i, (task, r) in enumerate(rows)
        ]
        return Batch.from_rollouts(rollouts, dtype=torch.float64)

    memory = SuccessReplay(baselines=3)
    first = memory.observe(memory.initial(), batch(("a", 1.0), ("a", 0.0), ("b", 2.0), ("c", 9.0), probe="c"))
    assert first["means"] == [[0.5, 2.0]]
    second = memory.observe(first, batch(("a", 1.0), ("b", 3.0)))
    assert second["means"] == [[1.0, 3.0]]  # four would be too many: the oldest iteration goes
    third = memory.observe(second, batch(("a", 4.0)))
    assert third["means"] == [[1.0, 3.0], [4.0]]
    assert SuccessReplay(baselines=1).observe(memory.initial(), batch(("a", 1.0), ("b", 3.0)))["means"] == [[1.0, 3.0]]
