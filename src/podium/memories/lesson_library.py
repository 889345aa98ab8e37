"""TODO Lessons in the prompt: what earlier rollouts did well or badly is shown where it may help."""

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
    """Lessons that the best and the worst rollouts of each iteration leave behind, and the states they are tied to.

    From a success: its actions (a method), its last one (an example) and, if it was good enough, how few turns it took
    (a principle); from a failure: its last actions (a mistake) and a repeated action (a pattern).
    """

    reference = "SLEA-RL, https://github.com/kingofspace0wzz/slea-rl"
    golden: int = 100  # lessons of each level
    warnings: int = 50
    best: int = 5  # successes and failures that are looked at in an iteration
    new_golden: int = 10  # after so many new lessons no further success is looked at
    new_warnings: int = 5
    success: float = 0.5  # the least reward of one
    excellent: float = 0.8
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
        library, found = _read(state), {True: 0, False: 0}
        limits, capacity = {True: self.new_golden, False: self.new_warnings}, {True: self.golden, False: self.warnings}
        for good, lessons in self._looked_at(batch):
            if found[good] >= limits[good]:
                continue
            for lesson in lessons:
                library, new = library.add(lesson, capacity[good])
                found[good] += new
        if len(library):
            library = library.tie(sorted({seen for _, _, seen in _counted(batch)}))
        return _written(library, state["iterations"] + 1)

    def _looked_at(self, batch: Batch) -> Iterable[tuple[bool, list[Lesson]]]:
        """Whether each of the best successes and the worst failures is one, and its lessons."""
        walks: dict[int, list[str]] = {}
        for rollout, action, _ in _counted(batch):
            walks.setdefault(rollout, []).append(action.strip())
        reward = batch["rollout.reward"].tolist()
        rows = sorted(walks, key=lambda r: (-reward[r], walks[r]))
        good = [r for r in rows if reward[r] >= self.success][: self.best]
        bad = [r for r in reversed(rows) if reward[r] < self.success][: self.best]
        yield from ((True, list(self._from_success(walks[r], reward[r]))) for r in good)
        yield from ((False, list(self._from_failure(walks[r], reward[r]))) for r in bad)

    def _from_success(self, actions: list[str], outcome: float) -> Iterable[Lesson]:
        yield Lesson("this worked: " + "; ".join(actions), "method", outcome)
        yield Lesson(f"at the end: {actions[-1]}", "example", 0.8 * outcome)
        if outcome >= self.excellent:
            yield Lesson(f"{len(actions)} turns are enough", "principle", outcome)

    def _from_failure(self, actions: list[str], outcome: float) -> Iterable[Lesson]:
        yield Lesson("this failed: " + "; ".join(actions[-3:]), "mistake", abs(outcome))
        again = [a for i, a in enumerate(actions) if a in actions[:i]]
        if again:
            yield Lesson(f"do not repeat: {again[0]}", "pattern", 0.5)
        yield Lesson(f"{len(actions)} turns led nowhere", "diagnostic", 0.3)


def _counted(batch: Batch) -> list[tuple[int, str, str]]:
    """(rollout, action, state) of the turns of those who count."""
    rows = zip(batch.link("turn", "rollout").tolist(), batch["turn.action"], batch["turn.state"], strict=True)
    counted = batch.counted("turn")
    return list(rows) if counted is None else [row for row, own in zip(rows, counted.tolist(), strict=True) if own]


def _read(state: State) -> Library:
    levels = {level: tuple(Lesson(*row) for row in rows) for level, rows in state["levels"].items()}
    clusters = tuple(Cluster(seen, tuple(Lesson(*row) for row in rows)) for seen, rows in state["clusters"])
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
