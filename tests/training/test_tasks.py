"""Which tasks come next: a fixed shuffle that shows each once a pass, and what a select part chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.part import Select
from podium.protocols.world import Task
from podium.sessions.train import configure
from podium.training.config import Config
from podium.training.tasks import Tasks, shuffled
from podium.worlds.graded import Graded


class Ten(Graded):
    """A finite world."""

    name = "ten"

    def size(self, split: str) -> int:
        return 10

    def task(self, number: int, split: str = "train") -> Task:
        return Task(f"{split}-{number}", f"Say {number}.")


class First(Select):
    """The first tasks that are left."""

    def choose(self, columns: Any, count: int) -> torch.Tensor:
        return torch.arange(count)


def config(**settings: Any) -> Config:
    return configure("grpo", world=Ten(), tasks=4, **settings)


def names(tasks: Sequence[Task]) -> list[str]:
    return [task.key for task in tasks]


def test_a_pass_shows_every_task_once_and_the_next_in_another_order() -> None:
    passes = [[shuffled(number, 10, 3) for number in range(10 * k, 10 * k + 10)] for k in range(3)]
    assert all(sorted(numbers) == list(range(10)) for numbers in passes)
    assert passes[0] != passes[1] != passes[2]
    assert passes[0] != [shuffled(number, 10, 4) for number in range(10)]


def test_an_endless_world_has_fresh_numbers() -> None:
    assert [shuffled(number, None, 3) for number in (0, 7, 10**6)] == [0, 7, 10**6]


def test_tasks_in_turn_depend_on_their_place_alone() -> None:
    whole = names(Tasks(Ten(), config()).in_turn(0, 12))
    assert names(Tasks(Ten(), config()).in_turn(5, 7)) == whole[5:]
    assert names(Tasks(Ten(), config(seed=1)).in_turn(0, 12)) != whole


def test_what_was_chosen_comes_again_in_the_next_iteration_or_when_nothing_else_is_left() -> None:
    tasks = Tasks(Ten(), config())

    def chosen(count: int) -> list[str]:
        return names(tasks.chosen(First(), count, (0, 0), lambda _: {}))

    assert chosen(4) == ["train-0", "train-1", "train-2", "train-3"]
    assert chosen(4) == ["train-4", "train-5", "train-6", "train-7"]
    assert chosen(4) == ["train-0", "train-1", "train-2", "train-3"]  # two would not have been enough
    tasks.begin()
    assert chosen(2) == ["train-0", "train-1"]
