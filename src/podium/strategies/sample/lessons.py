"""Lessons in the prompt: what was learnt from earlier rollouts is shown where the situation is similar."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.errors import within
from podium.core.part import Strategy
from podium.memories.lesson_writing import Library
from podium.protocols.context import Context, Full, History, Message
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, rollouts_of

__all__ = ["Advised", "SampleAdvised"]


class Advised(Context):
    """The messages of another context, with the lessons for the latest observation above the last message."""

    library: Library
    base: Context = Full()
    longest: int = 800  # characters of lessons

    def __call__(self, history: History) -> Sequence[Message]:
        *earlier, last = self.base(history)
        observation = history.exchanges[-1].observation if history.exchanges else history.prompt
        lines = [f"- {lesson.text}" for lesson in self.library.lessons(observation)]
        lessons = "\n".join(["Lessons:", *lines])[: self.longest]
        assert isinstance(last, str)
        return [*earlier, lessons + "\n" + last if lines else last]


class SampleAdvised(Strategy):
    """`n` rollouts of each task, each turn sampled after the lessons that the library has for its observation."""

    reference = "SLEA-RL, https://github.com/kingofspace0wzz/slea-rl"
    n: int = 8
    longest: int = 800  # characters of lessons
    draw: Draw = Draw()

    needs = ("group.lessons",)

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "longest", 1)

    def plan(self, task: TaskRequest) -> Plan:
        library = task.recalled.get("group.lessons")
        context = self.draw.context if library is None else Advised(library, self.draw.context_of(task), self.longest)
        return rollouts_of((yield [self.draw.play(task, self.n, context=context)]))
