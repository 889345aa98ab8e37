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

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.protocols.context import Context
from podium.protocols.sampling import Completion, Generate, Sampling
from podium.protocols.world import Episode, Task, World

__all__ = [
    "Embed",
    "Ends",
    "Interrupt",
    "Interrupted",
    "Plan",
    "Play",
    "Read",
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
    world: World | None = field(default=None, kw_only=True)  # where the task comes from


@dataclass(frozen=True)
class Written:
    """The beginning of a turn that is there already: its tokens or its text, who wrote it, and what is known of it."""

    ids: tuple[int, ...] = ()
    logp: tuple[float, ...] | None = None  # under the sampler; None: 0, or what `scored` finds
    captured: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # further signals by name, such as entropy
    text: str = ""  # instead of `ids`: encoded as the model would have written it
    origin: Origin = Origin.copied  # copied: by the policy, in another rollout; given, hint, expert: by others
    trained: bool = True  # False: `token.keep.begun` leaves it out of the loss
    scored: bool = False  # let the model say how likely it finds these tokens (at temperature 1)

    @classmethod
    def of(cls, turn: Turn, length: int | None = None, **settings: Any) -> Written:
        """The first tokens of a turn of another rollout (default: all)."""
        known = {k.removeprefix("sampler."): tuple(v[:length]) for k, v in turn.tokens.items() if k[:8] == "sampler."}
        return cls(tuple(turn.ids[:length]), known.pop("logp"), known, **settings)


@dataclass(frozen=True)
class Play:
    """n whole episodes of a task, graded by its world. Answered by n rollouts; by none where a `context` of the
    strategy's own leaves no room to answer.

    With `begun` their first turn begins with text that is already there, which the world sees as if the model had
    written it; it counts for the limit of tokens, and a turn that is full or closed with it ends there. With `window`
    they stop after so many more tokens: `rollout.finished` says whether one has ended and was graded, `token.new` what
    was written now.
    """

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
    begun: Written | None = None  # how their first turn begins
    window: int | None = None  # tokens; None: to the end
    keep: bool = False  # others will go on from within these: what the sampler knows of them is held
    role: str = "policy"  # the model that writes


@dataclass(frozen=True)
class Resume:
    """Episodes whose first turns are those of another rollout of the task: the world is taken there, then they go on.

    The turn after them may be begun too. Answered by as many rollouts as `play` asks for, the turns that they share
    included.
    """

    play: Play
    turns: tuple[Turn, ...]  # of the other rollout, as they were sampled or recited
    chance: tuple[int, int] = (0, 0)  # the wave and the index of that rollout: its world's chance is theirs too


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
    begun: Written | None = None  # what stands before the first text
    ended: bool = True  # whether the last text closes its turn
    optional: bool = False  # answered by none where it does not fit into the context, instead of an error
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
    role: str = "policy"  # the model that is asked


@dataclass(frozen=True)
class Embed:
    """What a text is about, as a direction: near those of texts like it. Answered by the numbers of a vector of length
    1, from the hidden states of a model that reads the text."""

    text: str
    role: str = "policy"  # the model that reads it
    pool: str = "mean"  # of the states of its tokens; last: the last one's, as of models trained to embed


@dataclass(frozen=True)
class Read:
    """What the tokens of a text say, one by one; a special token says nothing. Answered by a text a token."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Ends:
    """How many characters have been written after each token. Answered by these numbers."""

    ids: tuple[int, ...]


Request = Play | Resume | Recite | Replay | Interrupt | Score | Embed | Read | Ends | Generate
Wave = list[Request]
# Yields waves; receives an answer a request: rollouts for Play, Resume, Recite and Replay, completions for Generate,
# steps for Interrupt, numbers for Score, Embed and Ends, texts for Read; returns the group's rollouts.
Answers = list[list[Rollout] | list[Completion] | list[Interrupted] | list[float] | list[str]]
Plan = Generator[Wave, Answers, list[Rollout]]
