"""People's own worlds: loaded from a file, checked, and played at the terminal."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.worlds import Answer, Episode, Feedback, Task, World

MINE = '''
from podium.worlds import Answer, Feedback, Task

class Double(Answer):
    """Twice the number."""

    name = "double"
    largest: int = 9

    def task(self, index, split="train"):
        number = 2 * index + (split == "test")
        return Task(f"double/{split}/{index}", f"double {number}", data={"answer": str(2 * number)})

    def grade(self, task, text):
        right = text == task.data["answer"]
        return Feedback(float(right), info={"correct": right, "answer": text})

    def solve(self, task, style="short", seed=0):
        return task.data["answer"]

class NotAWorld:
    pass
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def test_a_world_from_a_file_is_found_and_clean(mine: Path) -> None:
    world = worlds.get(f"{mine}:Double", largest=3)
    assert worlds.check_world(world) == []
    assert worlds.get(world) is world
    assert worlds.get(world, largest=4).settings()["largest"] == 4


def test_names_in_a_file_get_their_nearest(mine: Path) -> None:
    with pytest.raises(PodiumError, match="'Double'"):
        worlds.get(f"{mine}:Duoble")
    with pytest.raises(PodiumError, match="'largest'"):
        worlds.get(f"{mine}:Double", lagest=3)
    with pytest.raises(PodiumError, match="not a world"):
        worlds.get(
            "podium.advantage:Group" if hasattr(__import__("podium").advantage, "Group") else "podium.core:Linear"
        )


class Corridor(World):
    """Walk to the end; a world of several turns."""

    name = "corridor"

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"corridor/{split}/{index}", f"{split} {index}: go", data={"length": index % 3 + 1})

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return Walk(task)


class Walk(Episode):
    def __init__(self, task: Task) -> None:
        super().__init__(task.prompt)
        self.left, self.turns = task.data["length"], 0

    def act(self, text: str) -> Feedback:
        self.turns += 1
        self.left -= text != ""
        done = self.left == 0 or self.turns == 10
        return Feedback(
            float(self.left == 0), done, f"{self.left} left", info={"correct": self.left == 0, "answer": ""}
        )


def test_a_world_of_several_turns_is_clean() -> None:
    assert worlds.check_world(Corridor()) == []


class Moody(Corridor):
    def reset(self, task: Task, seed: int = 0) -> Episode:
        return MoodyWalk(task)


class MoodyWalk(Walk):
    mood = 0

    def act(self, text: str) -> Feedback:
        MoodyWalk.mood += 1
        return Feedback(float(MoodyWalk.mood), info={"correct": True, "answer": ""})


class Sharing(Corridor):
    def reset(self, task: Task, seed: int = 0) -> Episode:
        return SharingWalk(task)


class SharingWalk(Walk):
    def copy(self) -> Episode:
        return self


class Endless(Corridor):
    def reset(self, task: Task, seed: int = 0) -> Episode:
        return EndlessWalk(task)


class EndlessWalk(Walk):
    def act(self, text: str) -> Feedback:
        return Feedback(done=False)


class Reward(Corridor):
    reward: Any = 0.0

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return RewardWalk(task, self.reward)


class RewardWalk(Walk):
    def __init__(self, task: Task, reward: float) -> None:
        super().__init__(task)
        self.reward = reward

    def act(self, text: str) -> Feedback:
        return Feedback(self.reward, info={"correct": False})


class SameKey(Corridor):
    def task(self, index: int, split: str = "train") -> Task:
        return Task("k", "the same prompt")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        raise RuntimeError("out of order")


DRIFT = count()


class Drifting(Corridor):
    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"{split}{index}", f"{split} {next(DRIFT)}", data={"length": 1})


class BadSolver(Answer):
    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"{split}{index}", f"{split} {index}")

    def grade(self, task: Task, text: str) -> Feedback:
        return Feedback(0.0, info={"correct": False, "answer": text})

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return "answer: 1"


class Silent(Corridor):
    provides = (*Corridor.provides, "turn.valid", "rollout.score")


@pytest.mark.parametrize(
    ("world", "finding"),
    [
        (Moody(), "the same task, seed and texts give different feedback"),
        (Sharing(), "acting in a copy changes the original"),
        (Endless(), "not done after 20 turns"),
        (Reward(reward=float("nan")), "the reward is nan"),
        (Reward(reward="one"), "the reward is 'one'"),
        (Reward(), "has no info['answer']"),
        (SameKey(), "Two tasks have the key 'k'"),
        (SameKey(), "occur in training"),
        (SameKey(), "RuntimeError: out of order"),
        (Drifting(), "is another each time it is made"),
        (BadSolver(), "own solution (short) is graded wrong"),
        (World(), "NotImplementedError"),
        (Silent(), "The world provides rollout.score, but its `blank` has no value for it if the world fails"),
    ],
)
def test_the_checker_names_what_is_wrong(world: World, finding: str) -> None:
    found = worlds.check_world(world, tasks=3, turns=20)
    assert any(finding in f for f in found), found


def test_a_person_plays_a_question_to_its_end() -> None:
    world = worlds.get("sums", level=1)
    task = world.task(4)
    written: list[str] = []
    feedback = worlds.play(world, 4, lambda prompt: str(task.data["answer"]), written.append)
    assert feedback is not None
    assert feedback.info["correct"]
    assert written[0].startswith(task.prompt)
    assert "Compute" in written[0]
    assert written[-2] == "Reward 1. Right."
    assert world.solve(task) in written[-1]


def test_a_person_plays_turn_by_turn_and_may_leave() -> None:
    written: list[str] = []
    assert worlds.play(Corridor(), 2, lambda prompt: "step", written.append) is not None
    assert written == ["train 2: go", "2 left", "1 left", "0 left", "Reward 1. Right."]

    def leave(prompt: str) -> str:
        raise EOFError

    assert worlds.play(Corridor(), 2, leave, written.append) is None
