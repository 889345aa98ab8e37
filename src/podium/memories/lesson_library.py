"""A library of experience: lessons from good and bad rollouts, shown in later prompts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.memories.lesson_writing import Cluster, Lesson, Library

__all__ = ["LessonLibrary"]


class LessonLibrary(Memory):
    """A library of lessons from the best and worst rollouts of each iteration, tied to the states where they apply.

    A success yields its actions (a method), its last action (an example) and, if excellent, how few turns it took (a
    principle); a failure its last actions (a mistake), a repeated action (a pattern) and its number of turns (a
    diagnostic). `group.lessons` is the library once it is large enough, `batch.lessons` its size.
    """

    reference = "SLEA-RL, https://github.com/kingofspace0wzz/slea-rl"
    golden: int = 100  # capacity of each level of lessons from successes, ≥ 1
    warnings: int = 50  # capacity of each level of lessons from failures, ≥ 1
    best: int = 5  # successes and failures that are examined per iteration, ≥ 1
    new_golden: int = 10  # new lessons after which no further success is examined, ≥ 1
    new_warnings: int = 5  # new lessons after which no further failure is examined, ≥ 1
    success: float = 0.5  # the least reward of a success
    excellent: float = 0.8  # the least reward of an excellent one
    after: int = 5  # iterations before anything is shown
    least: int = 10  # lessons before anything is shown

    needs = ("rollout.reward", "turn.action", "turn.state")
    provides = ("group.lessons", "batch.lessons")

    def __post_init__(self) -> None:
        for name in ("golden", "warnings", "best", "new_golden", "new_warnings"):
            within(self, name, 1)
        for name in ("after", "least"):
            within(self, name, 0)

    def initial(self) -> State:
        return {"levels": {}, "clusters": [], "iterations": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        library = _read(state)
        shown = library if state["iterations"] >= self.after and len(library) >= self.least and len(library) else None
        return {"group.lessons": (shown,) * len(tasks), "batch.lessons": torch.tensor([float(len(library))])}

    def observe(self, state: State, batch: Batch) -> State:
        library, added = _read(state), {True: 0, False: 0}
        limits, capacity = {True: self.new_golden, False: self.new_warnings}, {True: self.golden, False: self.warnings}
        for success, lessons in self._examined(batch):
            if added[success] >= limits[success]:
                continue
            for lesson in lessons:
                library, new = library.add(lesson, capacity[success])
                added[success] += new
        if len(library):
            library = library.tie(sorted({observation for _, _, observation in _counted(batch)}))
        return _written(library, state["iterations"] + 1)

    def _examined(self, batch: Batch) -> Iterable[tuple[bool, list[Lesson]]]:
        """For each of the best successes and worst failures: whether it is a success, and its lessons."""
        actions: dict[int, list[str]] = {}
        for rollout, action, _ in _counted(batch):
            actions.setdefault(rollout, []).append(action.strip())
        reward = batch["rollout.reward"].tolist()
        rows = sorted(actions, key=lambda r: (-reward[r], actions[r]))
        good = [r for r in rows if reward[r] >= self.success][: self.best]
        bad = [r for r in reversed(rows) if reward[r] < self.success][: self.best]
        yield from ((True, list(self._from_success(actions[r], reward[r]))) for r in good)
        yield from ((False, list(self._from_failure(actions[r], reward[r]))) for r in bad)

    def _from_success(self, actions: list[str], outcome: float) -> Iterable[Lesson]:
        yield Lesson("this worked: " + "; ".join(actions), "method", outcome)
        yield Lesson(f"at the end: {actions[-1]}", "example", 0.8 * outcome)
        if outcome >= self.excellent:
            yield Lesson(f"{len(actions)} turns are enough", "principle", outcome)

    def _from_failure(self, actions: list[str], outcome: float) -> Iterable[Lesson]:
        yield Lesson("this failed: " + "; ".join(actions[-3:]), "mistake", abs(outcome))
        repeated = [a for i, a in enumerate(actions) if a in actions[:i]]
        if repeated:
            yield Lesson(f"do not repeat: {repeated[0]}", "pattern", 0.5)
        yield Lesson(f"{len(actions)} turns led nowhere", "diagnostic", 0.3)


def _counted(batch: Batch) -> list[tuple[int, str, str]]:
    """(rollout, action, state) of the turns that count."""
    rows = zip(batch.link("turn", "rollout").tolist(), batch["turn.action"], batch["turn.state"], strict=True)
    counted = batch.counted("turn")
    return list(rows) if counted is None else [row for row, c in zip(rows, counted.tolist(), strict=True) if c]


def _read(state: State) -> Library:
    """The library from plain data."""
    levels = {level: tuple(Lesson(*row) for row in rows) for level, rows in state["levels"].items()}
    clusters = tuple(
        Cluster(observation, tuple(Lesson(*row) for row in rows)) for observation, rows in state["clusters"]
    )
    return Library(levels, clusters)


def _written(library: Library, iterations: int) -> State:
    """The library as plain data."""

    def rows(lessons: Iterable[Lesson]) -> list[list[Any]]:
        return [list(dataclasses.astuple(lesson)) for lesson in lessons]

    return {
        "levels": {level: rows(lessons) for level, lessons in library.levels.items()},
        "clusters": [[cluster.observation, rows(cluster.lessons)] for cluster in library.clusters],
        "iterations": iterations,
    }
