"""Collecting as data: a strategy is a generator that yields waves of requests and receives their answers.

    def plan(self, task):
        (rollouts,) = yield [Play(task, n=8)]
        return rollouts

The driver pools the requests of all live plans into one continuous batch; nothing waits for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from podium.core.batch import Origin, Purpose
from podium.core.build import Rollout, Turn
from podium.sampler.request import Completion, Generate, Sampling
from podium.worlds.context import Context
from podium.worlds.world import Episode, Task

__all__ = [
    "Continue",
    "Interrupt",
    "Interrupted",
    "Plan",
    "Play",
    "Recite",
    "Replay",
    "Request",
    "Resume",
    "Score",
    "TaskRequest",
    "Wave",
    "Written",
]


@dataclass(frozen=True)
class TaskRequest:
    """A task to roll out: its instance in this batch, and how to sample unless the strategy says otherwise."""

    task: Task
    group: int  # the number of the group in the iteration: copies of a task differ by it
    sampling: Sampling
    stream: tuple[int, ...]  # names the group's random numbers
    number: int = field(default=0, kw_only=True)  # of the group in the whole run
    known: Mapping[str, Any] = field(default_factory=dict)  # what the memories recall of the task, by column


@dataclass(frozen=True)
class Play:
    """n whole episodes of a task, graded by its world. Answered by n rollouts."""

    request: TaskRequest
    n: int = 1
    sampling: Sampling | None = None  # default: the request's
    purpose: Purpose = Purpose.train
    first: int = 0  # the index of the first of them within the group
    wave: int = 0  # which wave of the plan: later waves draw other random numbers
    columns: dict[str, Any] = field(default_factory=dict)  # further columns of the rollouts
    max_turns: int | None = None  # default: the world's
    context: Context | None = None  # what each turn is written after; default: the world's
    train_context: Context | None = None  # what it is trained after; default: the same
    wrap: Callable[[Episode], Episode] | None = None  # an episode around each one of the world, such as a turn more


@dataclass(frozen=True)
class Resume:
    """Episodes whose first turns are those of another rollout of the task: the world is taken there, then they go on.

    Answered by as many rollouts as `play` asks for, the turns that they share included.
    """

    play: Play
    turns: tuple[Turn, ...]  # of the other rollout, as they were sampled or recited
    chance: tuple[int, int] = (0, 0)  # the wave and the index of that rollout: its world's chance is theirs too


@dataclass(frozen=True)
class Written:
    """The beginning of a rollout: its tokens, and what the sampler said of them."""

    ids: tuple[int, ...] = ()
    logp: tuple[float, ...] = ()
    entropy: tuple[float, ...] = ()


@dataclass(frozen=True)
class Continue:
    """Go on with one rollout for at most `window` tokens; it is graded once it has ended, or is as long as allowed.

    Answered by one rollout, with the columns `rollout.finished` and `token.new`.
    """

    request: TaskRequest
    begun: Written = Written()
    window: int = 64
    sampling: Sampling | None = None  # `max_tokens` limits the whole rollout; default: the request's
    index: int = 0  # within the group


@dataclass(frozen=True)
class Recite:
    """A given text as a rollout: encoded once, graded by the task's world, not sampled. Answered by one rollout.

    Its tokens have log-probability 0 under the sampler, which did not draw them.
    """

    request: TaskRequest
    texts: tuple[str, ...] | None = None  # a turn each; None: the world writes a solution
    style: str = "short"  # of the world's solution
    purpose: Purpose = Purpose.demo
    origin: Origin = Origin.expert
    index: int = 0  # within the group
    columns: dict[str, Any] = field(default_factory=dict)  # further columns of the rollout
    episode: Episode | None = None  # what answers instead of the world
    context: Context | None = None  # as for `Play`
    train_context: Context | None = None


@dataclass(frozen=True)
class Replay:
    """A recorded rollout as it is, token by token. Answered by it, where this model's tokens say its text."""

    rollout: Rollout


@dataclass(frozen=True)
class Interrupt:
    """Stop a rollout after each of its steps, write `text` there, and see how the model goes on.

    A step ends where `after` is written, and before the answer; what follows belongs to the last one. Answered by one
    `Interrupted` a step.
    """

    request: TaskRequest
    rollout: Rollout
    after: str  # the text that ends a step
    text: str  # what is written after each
    n: int = 1
    sampling: Sampling = Sampling()
    wave: int = 0
    answer: str = "{}"  # how the right answer is written after `text`


@dataclass(frozen=True)
class Interrupted:
    """A step's end: where it is, the context up to `text`, how the model went on, and the right answer in its place."""

    start: int  # the tokens of the rollout from which on it goes
    end: int  # and up to which
    context: tuple[int, ...]
    answer: tuple[int, ...]
    completions: list[Completion]


@dataclass(frozen=True)
class Score:
    """What the model says of a given text, token by token. Answered by the numbers of a functional."""

    context: tuple[int, ...]
    ids: tuple[int, ...]
    name: str = "logp"  # or entropy, …


Request = Play | Resume | Recite | Replay | Interrupt | Score | Generate | Continue
Wave = list[Request]
# Yields waves; receives an answer a request: rollouts for Play, Resume, Recite and Replay, completions for Generate,
# steps for Interrupt, numbers for Score; returns the group's rollouts.
Plan = Generator[Wave, list[list[Rollout] | list[Completion] | list[Interrupted] | list[float]], list[Rollout]]
