"""Judges that are models: roles or servers that write their verdicts, and roles whose probabilities are the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from podium.core.errors import PodiumError, within
from podium.method import Role
from podium.protocols.verdict_text import (
    BETTER,
    MEETS,
    PAIR_QUESTION,
    POINT_QUESTION,
    POINTS,
    SCALE,
    SCALED_QUESTION,
    VERDICT,
    YES_NO,
    judge_prompt,
    read_verdict,
    read_yes_no,
)
from podium.strategies.ask import Ask, ChatServer, Reply
from podium.strategies.requests import Opinion, PairJudge, Score, TaskRequest, Wave

__all__ = ["OptionJudge", "WrittenJudge", "criteria_judge", "judge_named"]

Asking = Generator[Wave, Any, Opinion]
JUDGING = 1 << 21  # names the random streams of verdicts
WORST, BEST = -3, 3
WAYS = ("written", "options")


class Question(NamedTuple):
    """What a model is asked, the options that it has, and the scores that each of them means."""

    prompt: str
    options: tuple[str, ...]
    score: Callable[[str], tuple[float, ...]]

    def read(self, text: str) -> str | None:
        """The option that a text names; None: there is none."""
        return read_yes_no(text) if self.options is YES_NO else read_verdict(text, self.options)

    @property
    def written(self) -> list[str]:
        """The options as they stand after the question."""
        return [f" {option}" if self.options is YES_NO else f"{VERDICT} {option}" for option in self.options]


class _ModelJudge(PairJudge):
    """The questions that a model is asked. Empty ones are those that podium/tiny2 knows."""

    scaled: bool = False  # compare by −3 … 3, how much better B is, instead of by A or B
    pair: str = ""  # may contain {question}, {left} and {right}
    point: str = POINT_QUESTION  # may contain {question} and {answer}
    criterion: str = MEETS  # may contain {question}, {answer} and {criterion}

    def __post_init__(self) -> None:
        self.pair_question("", "", "")
        judge_prompt(self.point, question="", answer="")
        judge_prompt(self.criterion, question="", answer="", criterion="")

    def pair_question(self, question: str, left: str, right: str) -> str:
        """What it is asked about two answers."""
        ask = self.pair or (SCALED_QUESTION if self.scaled else PAIR_QUESTION)
        return judge_prompt(ask, question=question, left=left, right=right)

    def compare(self, request: TaskRequest, left: str, right: str, seed: int) -> Asking:
        options, score = (SCALE, _of_scale) if self.scaled else (BETTER, _of_letter)
        prompt = self.pair_question(str(request.task.prompt), left, right)
        return self.verdict(request, Question(prompt, options, score), seed)

    def rate(self, request: TaskRequest, text: str, seed: int) -> Asking:
        prompt = judge_prompt(self.point, question=str(request.task.prompt), answer=text)
        return self.verdict(request, Question(prompt, POINTS, _of_points), seed)

    def meets(self, request: TaskRequest, text: str, criterion: str, seed: int) -> Asking:
        given = {"question": str(request.task.prompt), "answer": text, "criterion": criterion}
        return self.verdict(request, Question(judge_prompt(self.criterion, **given), YES_NO, _of_yes), seed)

    def verdict(self, request: TaskRequest, question: Question, seed: int) -> Asking:
        """A sub-plan that returns what the model says to a question: one of the options, as scores."""
        raise NotImplementedError


class WrittenJudge(_ModelJudge):
    """A generative judge: a role or a server writes a verdict, which is read from the last line that begins with
    `verdict:`; a question of yes or no may also be answered by its first word.

    A text without a verdict is written anew, `retries` times at most; after that the verdict is neutral. `by_length`
    divides the difference of two texts by the number of characters that the judge has written, as Think-RM's code does.
    """

    asks: str | ChatServer = "judge"  # a role, or a server
    retries: int = 2  # further attempts where nothing can be read
    temperature: float = 0.6  # above 0: an attempt at 0 would repeat the one before
    tokens: int | None = None  # token limit of a verdict; None: that of an answer
    by_length: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "retries", 0)
        within(self, "temperature", 0)
        within(self, "tokens", 1, optional=True)

    @property
    def roles(self) -> tuple[str, ...]:
        return () if isinstance(self.asks, ChatServer) else (self.asks,)

    @property
    def writers(self) -> tuple[str, ...]:
        return self.roles

    def verdict(self, request: TaskRequest, question: Question, seed: int) -> Asking:
        limit = request.sampling.max_tokens if self.tokens is None else self.tokens
        sampling = request.sampling.replace(temperature=self.temperature, max_tokens=limit, stop=(), warmth=None)
        calls = 0
        for attempt in range(self.retries + 1):
            stream = (*request.stream, JUDGING, attempt, seed)
            ((reply,),) = yield [Ask(question.prompt, self.asks, sampling, stream)]
            assert isinstance(reply, Reply)
            calls += reply.calls
            if reply.failure:
                raise PodiumError(reply.failure)
            said = question.read(reply.text)
            if said is not None:
                return Opinion(self._shrunk(question.score(said), reply.text), calls)
        return Opinion(None, calls)

    def _shrunk(self, scores: tuple[float, ...], text: str) -> tuple[float, ...]:
        return tuple(0.5 + (x - 0.5) / len(text) for x in scores) if self.by_length else scores


class OptionJudge(_ModelJudge):
    """A judge by the probability of options: nothing is sampled. Each option `verdict: A` is scored after the question,

        p(option) = π(option) / Σ π(option′),    score = Σ p(option) · score(option)

    so that the scores of a comparison by A or B are the probabilities that each is better. The role's model must have
    the policy's tokenizer.
    """

    role: str = "judge"

    @property
    def roles(self) -> tuple[str, ...]:
        return (self.role,)

    def verdict(self, request: TaskRequest, question: Question, seed: int) -> Asking:
        scored = [Score(question.prompt, text, role=self.role, optional=True) for text in question.written]
        logp = yield list(scored)
        if not all(logp):
            size = len(question.prompt)
            raise PodiumError(f"a question of {size:,} characters does not fit into the context of the judge")
        total = [sum(each) for each in logp]
        weights = [math.exp(x - max(total)) for x in total]
        scores = [question.score(option) for option in question.options]
        mean = (
            sum(w * x for w, x in zip(weights, column, strict=True)) / sum(weights)
            for column in zip(*scores, strict=True)
        )
        return Opinion(tuple(min(max(x, 0.0), 1.0) for x in mean))  # rounding may exceed 1


def judge_named(name: str, way: str = "options", **settings: Any) -> tuple[str | PairJudge, tuple[Role, ...]]:
    """A judge by name, with the roles that it needs: world, policy (the policy as it is now), the address of a server
    on this machine (http://localhost:8000/v1, or …/v1#MODEL), a run's folder, or a model.

    `way` is written or options; a server always writes. The settings are those of the judge; the world has none.
    """
    if way not in WAYS:
        raise PodiumError(f"A judge is asked in the way 'written' or 'options', not {way!r}.")
    if name == "world":
        return name, ()
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        return WrittenJudge(asks=ChatServer(url, model), **settings), ()
    role, roles = ("policy", ()) if name == "policy" else ("judge", (Role("judge", source=name),))
    if way == "written":
        return WrittenJudge(asks=role, **settings), roles
    return OptionJudge(role=role, **settings), roles


def criteria_judge(name: str, way: str = "options") -> tuple[PairJudge | None, tuple[Role, ...]]:
    """A judge of criteria by name, as in `judge_named`, and its roles; without a name, the world's rules decide."""
    if not name:
        return None, ()
    judge, roles = judge_named(name, way)
    if isinstance(judge, str):
        raise PodiumError(f"judge = {name!r}: leave judge out, and the world's rules decide which criteria are met.")
    return judge, roles


def _of_letter(said: str) -> tuple[float, float]:
    return (1.0, 0.0) if said == "A" else (0.0, 1.0)


def _of_scale(said: str) -> tuple[float, float]:
    share = (int(said) - WORST) / (BEST - WORST)  # 1: the second one is better by 3
    return 1 - share, share


def _of_points(said: str) -> tuple[float]:
    return (int(said) / (len(POINTS) - 1),)


def _of_yes(said: str) -> tuple[float]:
    return (1.0 if said == "yes" else 0.0,)
