"""Worlds: where tasks come from, and what happens when the model acts.

A world makes tasks and opens episodes; an episode takes what the model writes and answers. A question with a single
answer is an episode of one turn. Everything is deterministic given the task and the seed.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from podium.core.errors import PodiumError
from podium.core.value import Value
from podium.protocols.answer_text import final_answer
from podium.protocols.context import Context, Full
from podium.protocols.seats import Player

if TYPE_CHECKING:
    from podium.worlds.oracle import Dynamics

__all__ = [
    "ISOLATIONS",
    "Answer",
    "Criterion",
    "Episode",
    "FailedAction",
    "Feedback",
    "Later",
    "Task",
    "World",
    "completed",
    "isolation_of",
    "task_of",
]

ISOLATIONS = ("inline", "thread", "process", "sandbox")


@dataclass(frozen=True)
class Task:
    """The start of an episode, such as a question or a game, identified by its key."""

    key: str  # the same task has the same key in every run: "sums-2/train/17"
    prompt: str  # what the model sees first: a text, or `Pieces` if there are tokens of the model in it
    level: int = 1  # of difficulty
    domain: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)  # what the world needs to grade it

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable, so the copies of an episode share it


@dataclass(frozen=True)
class Feedback:
    """The world's response to an action."""

    reward: float = 0.0  # of the agent that has acted
    done: bool = True
    observation: str = ""  # what the model sees next: a text, or `Pieces`
    state: str = ""  # a key of the world's state after the action; equal states have equal keys
    # correct, answer, …: the columns of the rollout, or of the turn (turn.valid, …), that the world `provides`.
    info: Mapping[str, Any] = field(default_factory=dict)
    # By agent, what it earns besides `reward`. It is booked to the agent's last turn, so it must have acted before.
    rewards: Mapping[str, float] = field(default_factory=dict)
    # What completes it once all actions of the batch are known; None: it is complete.
    later: Later | None = field(default=None, compare=False)


class Later(Protocol):
    """The part of a feedback that depends on the other actions of its batch."""

    @property
    def batch(self) -> Hashable:
        """What is equal for those that are completed together."""
        ...

    @property
    def limit_s(self) -> float:
        """Seconds in which a batch is completed."""
        ...

    def complete(self, begun: Sequence[Feedback]) -> Sequence[Feedback | FailedAction]:
        """The feedbacks of a batch, complete, or why one of them has failed."""
        ...


@dataclass(frozen=True)
class Criterion:
    """One criterion of a rubric: what a good answer contains, or with negative points what it should avoid."""

    text: str
    points: float = 1.0


class FailedAction(Exception):
    """An action that a world cannot answer. Its message is the reason: the rollout earns nothing more, and is counted
    and shown as failed."""


def completed(feedback: Feedback) -> Feedback:
    """A feedback whose batch is this action alone. What is no feedback is left to those who check it."""
    if not isinstance(feedback, Feedback) or feedback.later is None:
        return feedback
    (result,) = feedback.later.complete([feedback])
    if isinstance(result, FailedAction):
        raise result
    return result


class Episode:
    """A task in progress. Copies are independent."""

    agent: str = ""  # who acts next, in a world of several agents
    recap: str = ""  # a summary for an agent that sees only the task and the last observation

    def __init__(self, observation: str, state: str = "") -> None:
        self.observation = observation
        self.state = state  # before the first action

    def act(self, text: str) -> Feedback:
        """Take the model's text as an action."""
        raise NotImplementedError

    def copy(self) -> Episode:
        return copy.deepcopy(self)

    def close(self) -> None:
        """Release its resources: nobody waits for it any more, though an action may still be running."""


class World(Value):
    """Makes tasks and opens episodes. Its settings are fields, like those of a part."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    levels: ClassVar[tuple[int, ...]] = (1,)  # of difficulty
    # Columns besides the reward. `task.solution` says that it can write solutions, `task.criteria` that it has rubrics,
    # `task.steps` that it can say where a solution goes wrong, `task.phrasings` that a task has several wordings,
    # `task.compare` and `task.rate` that it judges answers,
    # `task.choices` that some tasks list their answers in `data["choices"]`, `task.context` that tasks
    # can be shown without their question, `task.views` that it can show their pictures in several ways,
    # `task.options` that its observations are sets of options (`podium.protocols.option_set`), `task.dynamics` that its
    # exact values are known, `task.plan`, `task.knowledge` and `task.subproblems` that it can write these.
    provides: ClassVar[tuple[str, ...]] = ("rollout.correct", "rollout.answer")
    blank: ClassVar[Mapping[str, Any]] = {}  # values of these columns where the world has failed
    max_tokens: ClassVar[int] = 64  # enough tokens for a turn of a model that solves it
    max_turns: ClassVar[int] = 50  # of an episode
    # How its episodes run, unless the run says otherwise: `inline`, in the driver's own thread without a time limit;
    # `thread`; `process`, separate and killable; `sandbox`, a process with limits, without network and most files.
    # Empty: `process` if the run names the world by its path, else `thread`.
    isolation: ClassVar[str] = ""
    uses_sandbox: ClassVar[bool] = False  # it judges in a sandbox of its own, so it cannot run inside one
    costly: ClassVar[bool] = False  # making a task is slow, so tasks are made only when needed
    act_limit_s: ClassVar[float] = 10.0  # seconds for an action, unless the run says otherwise
    margin_s: ClassVar[float] = 0.0  # seconds to wait beyond that, where the world keeps the limit itself
    hides: ClassVar[bool] = False  # tasks differ in what the prompt does not show, so that prompts may be alike
    agents: ClassVar[tuple[str, ...]] = ()  # names of the agents, where there are several
    players: ClassVar[Mapping[str, Player]] = {}  # by name, opponents by rule that a model can be measured against
    context: ClassVar[Context] = Full()  # what the model sees of an episode, unless the strategy says otherwise
    styles: ClassVar[tuple[str, ...]] = ("short",)  # of the solutions that it can write

    level: int = 1

    def __post_init__(self) -> None:
        if self.level not in self.levels:
            world, levels = self.name or type(self).__name__, ", ".join(map(str, self.levels))
            raise PodiumError(f"{world} has no level {self.level!r}: its levels are {levels}.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable, so the copies of an episode share it

    @property
    def live(self) -> int | None:
        """How many episodes may be open at once; None: any number."""
        return None

    def close(self) -> None:
        """Stop its processes, such as those of a bridge. The next use starts them again."""

    def remarks(self) -> tuple[str, ...]:
        """What a person should know of its tasks before a run, a sentence each."""
        return ()

    def size(self, split: str = "train") -> int | None:
        """How many tasks there are; None: unlimited."""
        return None

    def task(self, index: int, split: str = "train") -> Task:
        """The task with this number. `split` separates held-out tasks (`test`) from those of training."""
        raise NotImplementedError

    def reset(self, task: Task, seed: int = 0) -> Episode:
        """Open an episode of a task."""
        raise NotImplementedError

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        """A correct answer with its reasoning, where the world can write one."""
        raise PodiumError(f"The world {self.name!r} cannot write solutions.")

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        """A solution as the texts of its turns."""
        return (self.solve(task, style, seed),)

    def reference(self, task: Task) -> str:
        """A correct answer without reasoning, where the world can write one."""
        return final_answer(self.solve(task)) or ""

    def unasked(self, task: Task) -> str:
        """What a task shows without its question, such as its pictures, where the two can be told apart."""
        raise PodiumError(f"The world {self.name!r} cannot show a task without its question.")

    def plan(self, task: Task) -> str:
        """The steps of a solution without their results, where the world can write them."""
        raise PodiumError(f"The world {self.name!r} cannot write plans.")

    def knowledge(self, task: Task) -> str:
        """The facts or rules that a solution needs, where the world can write them."""
        raise PodiumError(f"The world {self.name!r} cannot write down what its tasks need to be known.")

    def subproblems(self, task: Task) -> tuple[Task, ...]:
        """The steps of a solution as tasks of this world, each of which has the right answers of those before it in its
        question, where the world can write them; the answer to the last is the answer to the task."""
        raise PodiumError(f"The world {self.name!r} does not divide its tasks into subproblems.")

    def phrasings(self, task: Task) -> tuple[Task, ...]:
        """The task in each of its equivalent wordings, where the world has several."""
        raise PodiumError(f"The world {self.name!r} has one wording for each task.")

    def views(self, task: Task, count: int) -> tuple[Task, ...]:
        """The task as it is, and with its pictures slightly changed in `count` − 1 ways, where it has pictures."""
        raise PodiumError(f"The world {self.name!r} does not show a task in several views.")

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        """The rubric of a task, where the world has one."""
        raise PodiumError(f"The world {self.name!r} has no criteria for its answers.")

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        """Which of the criteria a text meets."""
        raise PodiumError(f"The world {self.name!r} has no criteria for its answers.")

    def compare(self, task: Task, left: str, right: str, seed: int = 0) -> tuple[float, float]:
        """One judgement of two answers beside each other: a score in [0, 1] for each, where the world judges answers.
        The order in which they stand may matter, and chance that depends on the seed alone."""
        raise PodiumError(f"The world {self.name!r} does not compare answers.")

    def rate(self, task: Task, text: str, seed: int = 0) -> float:
        """One judgement of an answer by itself: a score in [0, 1], where the world judges answers."""
        raise PodiumError(f"The world {self.name!r} does not rate answers.")

    def step_scores(self, task: Task, text: str) -> tuple[float, ...]:
        """The correctness of each step (line) of a text, in [0, 1], where the world can judge it."""
        raise PodiumError(f"The world {self.name!r} cannot judge the steps of an answer.")

    def completed(self, task: Task, beginning: str) -> str | None:
        """The rest of a solution that begins with this text; None where the world has none."""
        raise PodiumError(f"The world {self.name!r} cannot judge the steps of an answer.")

    def dynamics(self, task: Task) -> Dynamics:
        """The task as a finite decision process, where the world is small enough for exact values."""
        raise PodiumError(f"The exact values of the world {self.name or type(self).__name__!r} are not known.")


def isolation_of(world: World) -> str:
    """How a world says that its episodes run; empty: it says nothing."""
    if world.isolation not in ("", *ISOLATIONS):
        raise PodiumError(
            f"{world.name or type(world).__name__}: isolation is {world.isolation!r}, but must be one of "
            f"{', '.join(ISOLATIONS)}."
        )
    return world.isolation or ("inline" if getattr(world, "trusted", False) else "")  # its name in earlier versions


def task_of(world: World, index: int, split: str = "train") -> Task:
    """A task of a world, whose mistakes become errors that name it."""
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
    """A world whose episodes have one turn: subclasses grade a text."""

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
