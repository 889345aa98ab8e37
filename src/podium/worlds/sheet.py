"""Questions that a seeded table decides, with statements in the reasoning that can be checked against it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from podium.core.errors import within
from podium.protocols.world import Feedback, Task
from podium.worlds.puzzle import Puzzle

__all__ = ["Sheet"]


class Sheet(Puzzle):
    """A question that a table decides. The table is no part of the question: a model has to know it.

    What a text says on the way to its answer is checked by rule. `rollout.faithful` is the share of its statements that
    hold, 1 without any; `rollout.complete` is the share of the statements that an answer should rest on which it makes.
    """

    provides = (*Puzzle.provides, "rollout.faithful", "rollout.complete")
    table: int = 0  # which of the seeded tables decides

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "table", 0)

    @property
    def family(self) -> str:
        return f"{super().family}-table{self.table}" if self.table else super().family

    def chance(self) -> Random:
        """The random numbers of the table."""
        return Random(f"{self.name}/table/{self.table}")

    def stated(self, task: Task, text: str) -> set[str]:
        """The statements that a text makes, of those that can be checked."""
        raise NotImplementedError

    def holds(self, task: Task) -> set[str]:
        """The statements that hold."""
        raise NotImplementedError

    def needed(self, task: Task, text: str) -> set[str]:
        """The statements that the answer of a text should rest on: by default all that hold."""
        return self.holds(task)

    def grade(self, task: Task, text: str, seed: int = 0) -> Feedback:
        feedback = super().grade(task, text, seed)
        stated, needed = self.stated(task, text), self.needed(task, text)
        faithful = len(stated & self.holds(task)) / len(stated) if stated else 1.0
        complete = len(stated & needed) / len(needed) if needed else 1.0
        info = {**feedback.info, "faithful": faithful, "complete": complete}
        return replace(feedback, info=info)
