"""Mistakes of people's own worlds of several turns: each is a stated end of the episode, in the record, the metrics,
the report and at the terminal; none ends the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import podium
from podium.cli import main
from podium.evaluation.measure import failure_note, held_out, measure
from podium.report.run_page import write_report
from podium.worlds import Episode, Feedback, Task, World, play
from tests.collect.test_many_turns import collect, driver, line


class Mine(World):
    """Three turns, of which the second or the last goes wrong as a test wants it."""

    name = "mine"
    max_tokens, max_turns, act_limit_s = 4, 3, 5.0
    provides = (*World.provides, "turn.state", "turn.reward", "turn.valid")

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"mine/{split}/{index}", f"{index} plus 2")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return Walk(task)


class Walk(Episode):
    def __init__(self, task: Task) -> None:
        super().__init__(task.prompt, state="0")
        self.turn = 0

    def act(self, text: str) -> Feedback:
        self.turn += 1
        return self.answer()

    def answer(self, **changes: Any) -> Feedback:
        info = {"correct": True, "answer": "1", "valid": True}
        told = {"reward": 0.25, "done": self.turn == 3, "observation": f"saw {self.turn}", "state": str(self.turn)}
        return Feedback(**{**told, "info": info, **changes})


def world(act: Callable[[Walk], Any] | None = None, walk: dict[str, Any] | None = None, **own: Any) -> World:
    """A world whose second turn is `act`, with other attributes of its episodes and its own."""

    def acted(self: Walk, text: str) -> Any:
        self.turn += 1
        return act(self) if act is not None and self.turn == 2 else self.answer()

    episode = type("Other", (Walk,), {"act": acted, **(walk or {})})
    made: World = type("Yours", (Mine,), {"reset": lambda self, task, seed=0: episode(task), **own})()
    return made


def raises(error: BaseException) -> Callable[[Walk], Any]:
    def act(episode: Walk) -> Any:
        raise error

    return act


def refuse(self: object) -> str:
    raise RuntimeError("not now")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize("own", [{"isolation": "inline"}, {"isolation": "thread"}, {"trusted": True}])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SystemExit(3), "the world raised SystemExit: 3"),
        (Mute(), "the world raised Mute"),
        (ValueError("half \ud800"), r"the world raised ValueError: half \ud800"),
        (ValueError("two\n  lines"), "the world raised ValueError: two lines"),
        (KeyError(), "the world raised KeyError"),
    ],
)
def test_an_error_of_any_kind_is_one_line(error: BaseException, reason: str, own: dict[str, Any]) -> None:
    for rollout in collect(world(raises(error), **own)):
        assert (rollout.columns["stop"], rollout.columns["failure"]) == ("failed", reason)
        assert rollout.columns["reward"] == 0.25
        assert rollout.columns["correct"] is False  # what it said before it failed is no verdict


def test_a_reason_is_never_longer_than_a_few_lines() -> None:
    (rollout, _) = collect(world(raises(ValueError("x" * 100_000))))
    assert len(rollout.columns["failure"]) < 400


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (world(lambda e: e.answer(info={"correct": "no"})), "the world's info['correct'] is 'no', not True or False"),
        (world(lambda e: e.answer(info={"correct": np.ones(2)})), "the world's info['correct'] is array"),
        (world(lambda e: e.answer(info={"answer": Mute()})), "the world raised RuntimeError: no words"),
        (world(lambda e: Mute()), "the world raised RuntimeError: no words"),
        (world(lambda e: e.answer(), walk={"recap": 3}), "the world's recap is 3, not text"),
        (world(walk={"recap": property(refuse)}), "the world raised RuntimeError: not now"),
        (world(walk={"agent": property(refuse)}), "the world raised RuntimeError: not now"),
        (world(walk={"agent": ["a"]}, agents=("a",)), "the world's agent is ['a'], not text"),
        (world(walk={"agent": "c"}, agents=("a", "b")), "the world lets 'c' act, who is none of its agents: a, b"),
        (world(walk={"agent": "c"}), "the world lets 'c' act, who is none of its agents: it names none"),
        (world(reset=lambda self, task, seed=0: object.__new__(Walk)), "the world raised AttributeError"),
        (world(reset=lambda self, task, seed=0: None), "the world's reset() gave None, not an Episode"),
        (world(reset=lambda self, task, seed=0: raises(SystemExit(1))(Walk(task))), "the world raised SystemExit: 1"),
    ],
)
def test_what_nobody_can_go_on_with_ends_the_episode_with_the_reason(made: World, reason: str) -> None:
    rollouts = collect(made)
    for rollout in rollouts:
        assert rollout.columns["stop"] == "failed"
        assert rollout.columns["failure"].startswith(reason)
    found = line(rollouts)
    assert found["failures"] == 2
    assert found["failure"].startswith(reason)
    assert found["invalid"] > 0  # though the world names no `blank` for where it fails


def test_a_first_state_that_cannot_be_compared_is_a_failure() -> None:
    def begin(self: Walk, task: Task) -> None:
        Walk.__init__(self, task)
        self.state = ["room"]  # type: ignore[assignment]

    for rollout in collect(world(walk={"__init__": begin})):
        assert rollout.columns["failure"] == "the world's state is ['room'], not text"


@pytest.mark.parametrize("verdict", [None, 0, 1, 1.0, np.bool_(True), np.float32(1.0)])
def test_verdicts_of_other_kinds_are_verdicts(verdict: Any) -> None:
    def last(self: Walk, text: str) -> Feedback:
        return self.answer(done=True, info={"correct": verdict})

    for rollout in collect(world(walk={"act": last})):
        assert rollout.columns["failure"] == ""
        assert rollout.columns["correct"] is bool(verdict)


@pytest.mark.parametrize(("total", "says"), [(0.75, ""), (np.float32(0.75), ""), (9.0, "9.0"), ("all", "'all'")])
def test_two_totals_that_differ_are_a_stated_contradiction(total: Any, says: str) -> None:
    """A world that provides the reward of a rollout says it twice: as a total, and turn by turn."""

    def act(self: Walk, text: str) -> Feedback:
        self.turn += 1
        return self.answer(info={"correct": True, "answer": "", "valid": True, "reward": total})

    told = world(walk={"act": act}, provides=(*Mine.provides, "rollout.reward"))
    reason = f"the world says that the episode has earned {says}, but its turns have earned 0.75" if says else ""
    for rollout in collect(told):
        assert rollout.columns["failure"] == reason
        assert rollout.columns["reward"] == 0.75
    assert all(r.columns["failure"] == "" for r in collect(world(walk={"act": act})))  # who provides none says nothing


def test_one_episode_for_everybody_is_found_out() -> None:
    only: list[Walk] = []

    def reset(self: World, task: Task, seed: int = 0) -> Episode:
        only[:] = only or [Walk(task)]
        only[0].turn = 0
        return only[0]

    reasons = [rollout.columns["failure"] for rollout in collect(world(reset=reset, isolation="inline"))]
    assert reasons == ["", "the world's reset() gave an episode that is under way, not a new one"]


def test_held_out_rollouts_say_that_the_world_failed() -> None:
    failing = driver(world(raises(ValueError("boom"))))
    groups = held_out(failing, tasks=2, samples=2, max_tokens=4)
    found = measure(groups)
    assert (found["pass@1"].mean, found["failed"].mean) == (0.0, 1.0)
    assert failure_note(groups) == "the world raised ValueError: boom"
    assert "failed" not in measure(held_out(driver(Mine()), tasks=2, samples=2, max_tokens=4))


MINE = """
from podium.worlds import Episode, Feedback, Task, World

class Mine(World):
    name = "mine"
    max_tokens, max_turns = 4, 3
    agents = ("a", "b")
    provides = (*World.provides, "turn.state", "turn.reward", "turn.valid", "turn.seen", "rollout.kind")

    def task(self, index, split="train"):
        return Task(f"mine/{split}/{index}", f"{index} plus 2")

    def reset(self, task, seed=0):
        return Walk(task.prompt, "start")

class Walk(Episode):
    turn, agent = 0, "a"

    def act(self, text):
        self.turn += 1
        self.state = (self.turn, "there")
        if self.turn == 2:
            FAULT
        info = {"correct": True, "answer": "", "valid": True, "seen": self.turn, "kind": self if self.turn > 1 else 3}
        return Feedback(0.0, self.turn == 3, "<i>" + "on" * self.turn, self.state, info)
"""


def trained(tmp_path: Path, fault: str, *options: str) -> list[str]:
    """What the command writes on a world with a fault in its second turn."""
    file = tmp_path / "mine.py"
    file.write_text(MINE.replace("FAULT", fault))
    small = ["--iterations", "1", "--set", "tasks=2", "--set", "n=3", "--set", "eval_tasks=1", *options]
    return ["train", "gigpo", "--world", f"{file}:Mine", *small, "--out", str(tmp_path / "run")]


def test_a_run_whose_world_contradicts_itself_says_so_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right and nothing earned, an agent who never acts, states and values of no type that files know."""
    assert main(trained(tmp_path, "pass", "--set", "isolation=thread")) == 0
    out = capsys.readouterr().out
    page = write_report(tmp_path / "run").read_text()
    for said in (
        "6 of 6 rollouts are right and earned nothing: verdict and rewards disagree.",
        "An agent never acted in 100 % of the rollouts.",
    ):
        assert said in out
        assert said in page
    assert main(["rollouts", str(tmp_path / "run")]) == 0
    assert "b never acted" in capsys.readouterr().out
    assert "&lt;i&gt;onon" in page
    rows = pq.read_table(tmp_path / "run" / "rollouts" / "iteration-000001.parquet").to_pylist()
    assert rows[0]["turn.state"][1:] == ["(1, 'there')", "(2, 'there')"]
    assert all("Walk object" in row["kind"] for row in rows)


def test_a_value_that_cannot_leave_the_worlds_process_is_a_failure_that_names_its_column(tmp_path: Path) -> None:
    assert main(trained(tmp_path, "pass")) == 0
    rows = pq.read_table(tmp_path / "run" / "rollouts" / "iteration-000001.parquet").to_pylist()
    reason = "the world's info['kind'] holds a Walk, which cannot leave the world's process: use numbers, text, lists,"
    assert all(row["failure"].startswith(reason) for row in rows)
    assert all(len(row["turn.state"]) == 2 for row in rows)  # the first turn was fine


def test_a_run_whose_world_fails_says_so_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(trained(tmp_path, "raise ValueError('<b>' + chr(10) + 'boom')")) == 0
    assert "The world failed in 100 % of the held-out rollouts: the world raised ValueError: <b> boom." in (
        capsys.readouterr().out
    )
    page = write_report(tmp_path / "run").read_text()
    assert "The world failed in 6 of 6 rollouts: the world raised ValueError: &lt;b&gt; boom." in page
    assert '<span class="no">failed</span> · reward 0 · 2 turns · the world raised ValueError: &lt;b&gt; boom' in page
    assert main(["rollouts", str(tmp_path / "run"), "--failed", "--count", "1"]) == 0
    assert "failed · reward 0 · 2 turns · the world raised ValueError: <b> boom" in capsys.readouterr().out
    assert main(["eval", str(tmp_path / "run"), "--tasks", "1", "--k", "1", "--trust"]) == 2
    assert "the world failed in every rollout: the world raised ValueError: <b> boom." in capsys.readouterr().err


def test_a_person_who_plays_such_a_world_reads_one_line() -> None:
    with pytest.raises(podium.PodiumError, match=r"^The world 'mine' raised ValueError: boom\.$"):
        play(world(raises(ValueError("boom"))), 0, lambda _: "1", lambda _: None)
