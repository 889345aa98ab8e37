"""Requests: a strategy's plan is a generator that yields waves of requests and receives their answers.

    def plan(self, task):
        (rollouts,) = yield [Play(task, n=8)]
        return rollouts

The driver pools the requests of all live plans into one continuous batch, so no plan waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.value import Value
from podium.protocols.context import Context
from podium.protocols.format import Format
from podium.protocols.sampling import Completion, Generate, Sampling
from podium.protocols.seats import Seat
from podium.protocols.world import Episode, Task, World
from podium.strategies.ask import Ask, Reply

__all__ = [
    "Compare",
    "Embed",
    "Encode",
    "Ends",
    "Interrupt",
    "Interrupted",
    "JudgeScores",
    "Meets",
    "Opinion",
    "PairJudge",
    "Plan",
    "Play",
    "Rate",
    "Read",
    "Recite",
    "Replay",
    "Request",
    "Resume",
    "Score",
    "SubPlan",
    "TaskRequest",
    "Wave",
    "Written",
    "rollouts_of",
]


@dataclass(frozen=True)
class TaskRequest:
    """One task of a batch, for which a plan makes a group of rollouts."""

    task: Task
    group: int  # the number of the group in the iteration; a task that occurs twice has two
    sampling: Sampling  # the run's limits, and how to sample unless the strategy says otherwise
    stream: tuple[int, ...]  # names the random stream of the group
    number: int = field(default=0, kw_only=True)  # of the group, counted over the whole run
    recalled: Mapping[str, Any] = field(default_factory=dict)  # what the memories recall of the task, by column
    world: World | None = field(default=None, kw_only=True)  # the world of the task
    vocabulary: int | None = field(default=None, kw_only=True)  # tokens that the model knows
    format: Format | None = field(default=None, kw_only=True)  # how turns are asked for, read and demonstrated


@dataclass(frozen=True)
class Written:
    """A prefix of a turn, which the model continues: its tokens or its text, who wrote it, and the signals it has."""

    ids: tuple[int, ...] = ()
    logp: tuple[float, ...] | None = None  # log-probabilities under the sampler; None: 0, or computed where `scored`
    captured: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # further signals by name, such as entropy
    text: str = ""  # after the `ids`, if there are any: encoded as the model would have written it
    origin: Origin = Origin.copied  # copied: by the policy, in another rollout; given, hint, expert: by others
    trained: bool = True  # False: `token.keep.begun` masks it in the loss
    scored: bool = False  # compute the log-probabilities of these tokens under the model (at temperature 1)

    @classmethod
    def of(cls, turn: Turn, length: int | None = None, **settings: Any) -> Written:
        """The first `length` tokens of a turn of another rollout (default: all), with their sampler signals."""
        signals = {k.removeprefix("sampler."): tuple(v[:length]) for k, v in turn.tokens.items() if k[:8] == "sampler."}
        return cls(tuple(turn.ids[:length]), signals.pop("logp"), signals, **settings)


@dataclass(frozen=True)
class Play:
    """Sample `n` episodes of a task, graded by its world. Answered by n rollouts; by none where the strategy's
    `context` leaves no tokens for an answer.

    With `begun` the first turn of each episode starts with that prefix, which the world sees as if the model had
    written it. The prefix counts towards the token limit; a turn that the prefix fills or ends is not continued. With
    `window` the episodes pause after so many new tokens: `rollout.finished` says whether one has ended and was graded,
    `token.new` marks the tokens sampled now.
    """

    request: TaskRequest
    n: int = 1
    sampling: Sampling | None = None  # None: the request's
    purpose: Purpose = Purpose.train
    first: int = 0  # the index of the first of these rollouts within the group
    wave: int = 0  # the number of the wave in the plan: each wave has random numbers of its own
    columns: dict[str, Any] = field(default_factory=dict)  # further columns of the rollouts
    max_turns: int | None = None  # None: the world's limit
    context: Context | None = None  # what each turn is sampled after; None: the world's
    train_context: Context | None = None  # what each turn is trained after; None: the same
    wrap: Callable[[Episode], Episode] | None = None  # wraps each episode, to add a turn, say; None: as the format does
    begun: Written | None = None  # the prefix of the first turn
    window: int | None = None  # new tokens at most; None: sample to the end
    keep: bool = False  # keep the sampler's KV cache of these rollouts, because others will fork from them
    role: str = "policy"  # the model that writes
    seats: tuple[Seat, ...] = ()  # who plays an agent, where it is not `role`


@dataclass(frozen=True)
class Resume:
    """Continue another rollout of the task after its first turns, which are replayed in the world.

    The turn after them may have a prefix (`play.begun`). Answered by as many rollouts as `play` asks for, each with the
    replayed turns included.
    """

    play: Play
    turns: tuple[Turn, ...]  # the first turns of the other rollout, sampled or recited
    chance: tuple[int, int] = (0, 0)  # wave and index of that rollout: the world gets the same random seed


@dataclass(frozen=True)
class Recite:
    """Turn a given text into a rollout: encoded and graded by the task's world, not sampled. Answered by one rollout.

    The sampler did not draw its tokens, so their log-probabilities under the sampler are set to 0.
    """

    request: TaskRequest
    texts: tuple[str, ...] | None = None  # one per turn, as a model writes them; None: the world's, in the format
    style: str = "short"  # of the world's solution
    purpose: Purpose = Purpose.demo
    origin: Origin = Origin.expert
    index: int = 0  # within the group
    columns: dict[str, Any] = field(default_factory=dict)  # further columns of the rollout
    begun: Written | None = None  # the prefix of the first turn, before the text
    shown: int = 0  # so many of the first texts are part of the conversation, and not trained
    ended: bool = True  # whether the last text ends its turn
    optional: bool = False  # answered by no rollout where the text does not fit into the context, not by an error
    episode: Episode | None = None  # takes the world's place
    context: Context | None = None  # as in `Play`
    train_context: Context | None = None


@dataclass(frozen=True)
class Replay:
    """Reuse a recorded rollout token by token. Answered by it, if the tokenizer decodes its tokens to its text."""

    rollout: Rollout


@dataclass(frozen=True)
class Interrupt:
    """Cut a rollout after each of its steps, insert `text` there, and sample how the model continues.

    A step ends after each occurrence of `after`, and before the answer; the rest belongs to the last step. Answered by
    one `Interrupted` per step.
    """

    request: TaskRequest
    rollout: Rollout
    after: str  # the text that ends a step
    text: str  # inserted after each step
    n: int = 1  # continuations of each step
    sampling: Sampling = Sampling()
    wave: int = 0
    answer: str = "{}"  # how the right answer is written after `text`


@dataclass(frozen=True)
class Interrupted:
    """One step of an interrupted rollout, and what was sampled after it."""

    start: int  # its first token in the rollout
    end: int  # one past its last token
    context: tuple[int, ...]  # everything up to and including the inserted text
    answer: tuple[int, ...]  # the right answer after that context
    completions: list[Completion]  # how the model continued instead


@dataclass(frozen=True)
class Score:
    """Score the tokens of a given text under a model. Answered by one number per token.

    A context that is a text is encoded as a question, a text in place of `ids` as the beginning of an answer.
    """

    context: tuple[int, ...] | str
    ids: tuple[int, ...] | str
    name: str = "logp"  # the signal: logp, entropy, …
    role: str = "policy"  # the model that scores
    optional: bool = False  # answered by no number where the text does not fit into the context, not by an error


@dataclass(frozen=True)
class Embed:
    """Embed a text: pool the hidden states of a model that reads it. Answered by the numbers of a vector of norm 1."""

    text: str
    role: str = "policy"  # the model that reads it
    pool: str = "mean"  # mean over its tokens, or last: the last token's state, as embedding models expect


@dataclass(frozen=True)
class Opinion:
    """What a judge has come to in one call, with what it took."""

    scores: tuple[float, ...] | None  # of each text, in [0, 1]; None: nothing that it said could be read
    attempts: int = 1  # how often it was asked


class PairJudge(Value):
    """A judge other than the world, whose scores lie in [0, 1]; its methods may be plans that ask a role, say.

    Each returns scores, or an `Opinion`. One that raises, or returns something else, has failed: it is counted, and its
    verdict is neutral.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that it asks."""
        return ()

    @property
    def writers(self) -> tuple[str, ...]:
        """Those of its roles that write their verdicts."""
        return ()

    def compare(self, request: TaskRequest, left: str, right: str, seed: int) -> SubPlan | tuple[float, float]:
        """Judge two answers to a task beside each other. Returns a score for each."""
        raise NotImplementedError

    def rate(self, request: TaskRequest, text: str, seed: int) -> SubPlan | float:
        """Judge one answer by itself. Returns its score."""
        raise NotImplementedError

    def meets(self, request: TaskRequest, text: str, criterion: str, seed: int) -> SubPlan | float:
        """Judge whether an answer meets a criterion. Returns the probability that it does."""
        raise NotImplementedError


@dataclass(frozen=True)
class Compare:
    """Judge two answers to a task beside each other. Answered by one `JudgeScores`, with the mean scores of its calls.

    In every other call the right text stands first. The world is asked within its time limit, as for an action.
    """

    request: TaskRequest
    left: str
    right: str
    seed: int = 0  # of the chance in the judgement, which differs from call to call
    judge: str | PairJudge = "world"
    calls: int = 2  # 1: only with `left` first


@dataclass(frozen=True)
class Rate:
    """Judge an answer to a task by itself. Answered by one `JudgeScores`, with its mean score."""

    request: TaskRequest
    text: str
    seed: int = 0
    judge: str | PairJudge = "world"
    calls: int = 1


@dataclass(frozen=True)
class Meets:
    """Judge whether an answer to a task meets a criterion. Answered by one `JudgeScores`, with its mean probability."""

    request: TaskRequest
    text: str
    criterion: str
    judge: PairJudge
    seed: int = 0
    calls: int = 1


@dataclass(frozen=True)
class JudgeScores:
    """A judge's scores, each the mean over its calls. A call that failed has given 0.5 to each text."""

    scores: tuple[float, ...]  # of each text, in [0, 1]
    calls: int  # of the judge, those included that had to be repeated
    failed: int = 0  # judgements among them that failed, or could not be read


@dataclass(frozen=True)
class Read:
    """Decode tokens one by one. Answered by one text per token; that of a special token is empty."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Encode:
    """Encode a text as a whole turn of the model. Answered by its tokens, the one that ends the turn included."""

    text: str


@dataclass(frozen=True)
class Ends:
    """Measure where each token ends in the decoded text. Answered by the number of characters up to each token."""

    ids: tuple[int, ...]


Request = (
    Play
    | Resume
    | Recite
    | Replay
    | Interrupt
    | Score
    | Embed
    | Read
    | Encode
    | Ends
    | Compare
    | Rate
    | Meets
    | Ask
    | Generate
)
Wave = list[Request]
# Rollouts for Play, Resume, Recite and Replay; completions for Generate; steps for Interrupt; numbers for Score, Embed,
# Encode and Ends; texts for Read; a judgement for Compare, Rate and Meets; a reply for Ask.
Answers = list[
    list[Rollout] | list[Completion] | list[Interrupted] | list[float] | list[str] | list[JudgeScores] | list[Reply]
]
# Yields waves, receives one answer per request, and returns the rollouts of the group.
Plan = Generator[Wave, Answers, list[Rollout]]
# The same within a plan, or in place of an answer: returns what its caller wants to know.
SubPlan = Generator[Wave, Any, Any]


def rollouts_of(answers: Answers) -> list[Rollout]:
    """The rollouts of a wave whose requests are all answered by rollouts, in order."""
    return [rollout for answer in answers for rollout in answer]  # type: ignore[misc]
