"""A library of experience: lessons from good and bad rollouts, shown in later prompts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.memories.lesson_writing import Cluster, Lesson, LessonEmbedder, LessonExtractor, Library

__all__ = ["LessonLibrary"]


class LessonLibrary(Memory):
    """A library of lessons from the best and worst rollouts of each iteration, tied to the observations at which they
    were looked up.

    `extractor` writes the lessons of a rollout, by rules unless a subclass of `LessonExtractor` says otherwise;
    `embedder`, a `LessonEmbedder` such as `WordEmbedder()`, ranks them by their meaning. `group.lessons` is the library
    once it is large enough, `batch.lessons` its size, and `batch.lessons.found` the share of the last iteration's turns
    at whose observation lessons were tied already.
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
    clusters: int = 500  # observations that lessons are tied to; the least used makes room for a new one, ≥ 1
    extractor: LessonExtractor = LessonExtractor()
    embedder: LessonEmbedder | None = None  # None: lessons are ranked by their scores

    needs = ("rollout.reward", "rollout.prompt", "turn.action", "turn.observation")
    provides = ("group.lessons", "batch.lessons", "batch.lessons.found")

    def __post_init__(self) -> None:
        for name in ("golden", "warnings", "best", "new_golden", "new_warnings", "clusters"):
            within(self, name, 1)
        for name in ("after", "least"):
            within(self, name, 0)

    @property
    def remembers_tasks(self) -> bool:
        return False  # its lessons are for all tasks

    def initial(self) -> State:
        return {"levels": {}, "clusters": [], "iterations": 0, "found": 0.0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        library = self._read(state)
        shown = library if state["iterations"] >= self.after and len(library) >= self.least and len(library) else None
        return {
            "group.lessons": (shown,) * len(tasks),
            "batch.lessons": torch.tensor([float(len(library))]),
            "batch.lessons.found": torch.tensor([state.get("found", 0.0)]),
        }

    def observe(self, state: State, batch: Batch) -> State:
        library, added = self._read(state), {True: 0, False: 0}
        seen = [observation for _, _, observation in _counted(batch)]
        known = sum(times for text, times in Counter(seen).items() if library.cluster(text) is not None)
        limits, capacity = {True: self.new_golden, False: self.new_warnings}, {True: self.golden, False: self.warnings}
        for success, lessons in self._examined(batch):
            if added[success] >= limits[success]:
                continue
            for lesson in lessons:
                library, new = library.add(lesson, capacity[success])
                added[success] += new
        if len(library):
            library = library.tie(seen, self.clusters)
        return _written(library, state["iterations"] + 1) | {"found": known / max(len(seen), 1)}

    def _examined(self, batch: Batch) -> Iterable[tuple[bool, list[Lesson]]]:
        """For each of the best successes and worst failures: whether it is a success, and its lessons."""
        actions: dict[int, list[str]] = {}
        for rollout, action, _ in _counted(batch):
            actions.setdefault(rollout, []).append(action.strip())
        reward = batch["rollout.reward"].tolist()
        rows = sorted(actions, key=lambda r: (-reward[r], actions[r]))
        good = [r for r in rows if reward[r] >= self.success][: self.best]
        bad = [r for r in reversed(rows) if reward[r] < self.success][: self.best]
        write = self.extractor
        for row in good:
            yield True, list(write.from_success(actions[row], reward[row], reward[row] >= self.excellent))
        for row in bad:
            yield False, list(write.from_failure(actions[row], reward[row]))

    def _read(self, state: State) -> Library:
        """The library from plain data."""
        levels = {level: tuple(Lesson(*row) for row in rows) for level, rows in state["levels"].items()}
        clusters = tuple(
            Cluster(observation, tuple(Lesson(*row) for row in rows), *uses)
            for observation, rows, *uses in state["clusters"]
        )
        return Library(levels, clusters, self.embedder)


def _counted(batch: Batch) -> list[tuple[int, str, str]]:
    """(rollout, action, the observation before it) of the turns that count.

    It is the observation by which lessons were looked up: what the world said last, at first the prompt.
    """
    rollout, said = batch.link("turn", "rollout").tolist(), batch["turn.observation"]
    first, prompts = batch.first("turn", "rollout").tolist(), batch["rollout.prompt"]
    order = batch.partition("turn", "rollout")
    before = order.members(torch.arange(len(batch), device=batch.device)).tolist()
    seen: dict[int, str] = {}
    for place, turn in enumerate(before):
        seen[turn] = prompts[rollout[turn]] if first[turn] else said[before[place - 1]]
    counted = batch.counted("turn")
    chosen = range(len(rollout)) if counted is None else counted.nonzero().reshape(-1).tolist()
    return [(rollout[turn], batch["turn.action"][turn], seen[turn]) for turn in chosen]


def _written(library: Library, iterations: int) -> State:
    """The library as plain data."""

    def rows(lessons: Iterable[Lesson]) -> list[list[Any]]:
        return [list(dataclasses.astuple(lesson)) for lesson in lessons]

    return {
        "levels": {level: rows(lessons) for level, lessons in library.levels.items()},
        "clusters": [[cluster.observation, rows(cluster.lessons), cluster.uses] for cluster in library.clusters],
        "iterations": iterations,
    }
