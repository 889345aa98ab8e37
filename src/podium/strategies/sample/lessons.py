"""Lessons in the prompt: what earlier rollouts did well or badly is shown where it may help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium.core.errors import within
from podium.memories.lesson_writing import Library
from podium.protocols.context import Context, Full, History, Message
from podium.strategies.requests import Plan, Play, TaskRequest
from podium.strategies.sample.sample import Sample

__all__ = ["Advised", "SampleAdvised"]


class Advised(Context):
    """The messages of another context, the last of the world's with lessons above it."""

    library: Library
    base: Context = Full()
    longest: int = 800  # characters of lessons

    def __call__(self, history: History) -> Sequence[Message]:
        *before, last = self.base(history)
        seen = history.exchanges[-1].observation if history.exchanges else history.prompt
        lines = [f"- {lesson.text}" for lesson in self.library.lessons(seen)]
        shown = "\n".join(["Lessons:", *lines])[: self.longest]
        return [*before, f"{shown}\n{last}" if lines else last]


class SampleAdvised(Sample):
    """`n` rollouts of each task, each turn written after the lessons that the library has for its observation."""

    reference = "SLEA-RL, https://github.com/kingofspace0wzz/slea-rl"
    longest: int = 800  # characters of lessons

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "longest", 1)

    @property
    def needs(self) -> tuple[Any, ...]:
        return (*super().needs, "group.lessons")

    def plan(self, task: TaskRequest) -> Plan:
        library = task.known.get("group.lessons")
        base = Full() if self.context is None else self.context
        context = self.context if library is None else Advised(library, base, self.longest)
        answers = yield [Play(task, self.n, self.sampling(task.sampling), max_turns=self.max_turns, context=context)]
        return [rollout for answer in answers for rollout in answer]  # type: ignore[misc]
