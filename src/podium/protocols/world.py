"""Worlds: where tasks come from, and what happens when the model acts.

A world makes tasks and opens episodes; an episode takes what the model writes and answers. A question with a single
answer is an episode of one turn. Everything is deterministic given the task and the seed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from podium.core.errors import PodiumError
from podium.core.value import Value
from podium.protocols.answer_text import final_answer
from podium.protocols.context import Context, Full

if TYPE_CHECKING:
    from podium.worlds.oracle import Dynamics

__all__ = ["Answer", "Criterion", "Episode", "Feedback", "Task", "World", "task_of"]


@dataclass(frozen=True)
class Task:
    """A question, a game, an episode's start: stable, named by its key."""

    key: str  # the same task has the same key in every run: "sums-2/train/17"
    prompt: str  # what the model sees first
    level: int = 1
    domain: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)  # what the world needs to grade it

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # never changes, so the copies of an episode share it


@dataclass(frozen=True)
class Feedback:
    """What the world says to an action."""

    reward: float = 0.0
    done: bool = True
    observation: str = ""  # what the model sees next
    state: str = ""  # a key of the world's state after the action, equal where states are equal
    # correct, answer, …: what the world `provides` as columns of the rollout, or of the turn (turn.valid, …).
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Criterion:
    """A point of a checklist: what a good answer has, or with negative points what it should not have."""

    text: str
    points: float = 1.0


class Episode:
    """A task under way. Copies are independent."""

    agent: str = ""  # who acts next, in a world of several agents
    recap: str = ""  # what someone who joins now must know beside the task and the last observation

    def __init__(self, observation: str, state: str = "") -> None:
        self.observation = observation
        self.state = state  # before the first action

    def act(self, text: str) -> Feedback:
        raise NotImplementedError

    def copy(self) -> Episode:
        return copy.deepcopy(self)

    def close(self) -> None:
        """Let go of what it holds: nobody waits for it any more, though an action may not have come back yet."""


class World(Value):
    """Makes tasks and opens episodes. Settings are fields, as those of a part."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    levels: ClassVar[tuple[int, ...]] = (1,)  # how hard tasks can be
    # Columns beside the reward; `task.solution` says that it can write solutions, `task.criteria` that it has
    # checklists, `task.steps` that it can say where a solution goes wrong.
    provides: ClassVar[tuple[str, ...]] = ("rollout.correct", "rollout.answer")
    blank: ClassVar[Mapping[str, Any]] = {}  # what such a column holds where the world has failed to say
    max_tokens: ClassVar[int] = 64  # enough for a turn of a model that solves it
    max_turns: ClassVar[int] = 50  # an episode that has had so many ends there
    trusted: ClassVar[bool] = False  # quick and safe: acts without a time limit in the driver's own thread
    costly: ClassVar[bool] = False  # making a task takes long: only those that are needed are made
    act_limit_s: ClassVar[float] = 10.0  # for an action, unless the run says otherwise
    agents: ClassVar[tuple[str, ...]] = ()  # the names of those who act, where there are several
    context: ClassVar[Context] = Full()  # what the model sees of an episode, unless the strategy says otherwise

    styles: ClassVar[tuple[str, ...]] = ("short",)  # in which it writes solutions

    level: int = 1

    def __post_init__(self) -> None:
        if self.level not in self.levels:
            world, known = self.name or type(self).__name__, ", ".join(map(str, self.levels))
            raise PodiumError(f"{world} has no level {self.level!r}: its levels are {known}.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a value never changes, so the copies of an episode share it

    @property
    def live(self) -> int | None:
        """How many episodes may be under way at once; None: any number."""
        return None

    def close(self) -> None:
        """End what runs for it: the processes of a bridge. Whoever uses it next starts them again."""

    def size(self, split: str = "train") -> int | None:
        """How many tasks there are; None: as many as wanted."""
        return None

    def task(self, index: int, split: str = "train") -> Task:
        """The task with this number. `split` keeps held-out tasks (`test`) apart from those of training."""
        raise NotImplementedError

    def reset(self, task: Task, seed: int = 0) -> Episode:
        raise NotImplementedError

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        """A right answer with visible reasoning, where the world can write one."""
        raise PodiumError(f"The world {self.name!r} cannot write solutions.")

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        """A solution as the texts of its turns."""
        return (self.solve(task, style, seed),)

    def reference(self, task: Task) -> str:
        """A right answer alone, where the world can write one."""
        return final_answer(self.solve(task)) or ""

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        """The checklist of a task, where the world has one."""
        raise PodiumError(f"The world {self.name!r} has no criteria for its answers.")

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        """Which of the criteria a text meets."""
        raise PodiumError(f"The world {self.name!r} has no criteria for its answers.")

    def step_scores(self, task: Task, text: str) -> tuple[float, ...]:
        """How right each step of a text is, in [0, 1], where the world can say; steps are lines."""
        raise PodiumError(f"The world {self.name!r} cannot judge the steps of an answer.")

    def completed(self, task: Task, beginning: str) -> str | None:
        """The rest of a solution that begins like this; None where the world knows none."""
        raise PodiumError(f"The world {self.name!r} cannot judge the steps of an answer.")

    def dynamics(self, task: Task) -> Dynamics:
        """The task as a finite decision process, where the world is small enough for exact values."""
        raise PodiumError(f"The exact values of the world {self.name or type(self).__name__!r} are not known.")


def task_of(world: World, index: int, split: str = "train") -> Task:
    """A task of a world that may have mistakes in it."""
    try:
        task = world.task(index, split)
        if not isinstance(task, Task):
            raise PodiumError(f"{world.name}.task({index}, {split!r}) gives a {type(task).__name__}, not a Task.")
        task.prompt.encode()
        return task
    except PodiumError:
        raise
    except NotImplementedError:
        raise PodiumError(f"The world {type(world).__name__} makes no tasks: define task(index, split).") from None
    except Exception as error:
        name, kind = world.name or type(world).__name__, type(error).__name__
        raise PodiumError(f"The world {name!r} could not make its {split} task {index}: {kind}: {error}.") from error


class Answer(World):
    """A world of one turn: subclasses grade a text."""

    def grade(self, task: Task, text: str) -> Feedback:
        raise NotImplementedError

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _OneTurn(self, task)


class _OneTurn(Episode):
    def __init__(self, world: Answer, task: Task) -> None:
        super().__init__(task.prompt, state=task.key)
        self.world, self.task = world, task

    def act(self, text: str) -> Feedback:
        return self.world.grade(self.task, text)
