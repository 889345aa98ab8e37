"""Introspection: the policy writes tasks that it can or cannot do, and is asked afresh whether it can."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.streams import key
from podium.memories.seed_tasks import SeedPool, alike_to_any
from podium.protocols.sampling import Sampling
from podium.strategies.ask import Ask, Reply
from podium.strategies.draw import Draw
from podium.strategies.hints.help import write_text
from podium.strategies.joint import JointStrategy
from podium.strategies.requests import Plan, Play, Request, TaskRequest

__all__ = ["Introspect", "VoteCount"]


@dataclasses.dataclass(frozen=True)
class VoteCount:
    """How often a task was called feasible and infeasible, and how often it was asked about."""

    feasible: float = 0.0
    infeasible: float = 0.0
    total: float = 0.0

    @classmethod
    def of(cls, votes: Sequence[bool | None]) -> VoteCount:
        """Of votes, None where one could not be read."""
        return cls(float(votes.count(True)), float(votes.count(False)), float(len(votes)))


@dataclasses.dataclass(frozen=True)
class _Candidate:
    """A task that was written: for whom, as which rollout, with which text, and whether it is a new one."""

    request: TaskRequest
    rollout: Rollout
    text: str
    fresh: bool


class Introspect(JointStrategy):
    """For each task of the batch the policy writes `n` tasks of its own, with examples above and a label that is
    wanted: feasible in one group, infeasible in the next. About each new one it is asked `k` times whether it can do
    it, without the label.

    A text that is empty, or whose ROUGE-L with a seed or an earlier one of the batch exceeds `alike`, is dropped.
    trained = "tasks": the rollouts are the tasks, with the numbers of votes in `rollout.votes.NAME`; "votes": they are
    the answers to the question, one group for each new task, with `rollout.vote` 1, 0, or −1 where one cannot be read.
    `rollout.distinct` is the share of all written texts that are new, `rollout.declared` whether a feasible task was
    wanted. With `trials` each task of the world is tried so often and asked about, too: `rollout.able.rate` is its pass
    rate and `rollout.able.claim` the share of "feasible", of which nothing is trained.
    """

    reference = "KnowRL: Teaching Language Models to Know What They Know, arXiv 2510.11407"
    n: int = 4  # tasks written for each task of the batch
    k: int = 8  # votes on each
    trained: str = "tasks"  # or votes
    shots: int = 4  # examples, half of each label as far as there are
    trials: int = 4  # trials of each task of the world; 0: none
    alike: float = 0.9  # ROUGE-L above which a task is no new one
    tokens: int = 8  # of a vote
    names: tuple[str, str] = ("can", "cannot")  # of the labels in a prompt
    replies: tuple[str, str] = ("yes", "no")  # the first word of the last line of a vote
    wanted: str = "write a task: {label}"
    question: str = "can you: {task}"
    draw: Draw = Draw()

    needs = ("group.seeds",)

    def __post_init__(self) -> None:
        for name in ("n", "k", "tokens"):
            within(self, name, 1)
        within(self, "shots", 2)
        within(self, "trials", 0)
        within(self, "alike", 0, 1)
        one_of(self, "trained", ("tasks", "votes"))
        for name, field in (("wanted", "{label}"), ("question", "{task}")):
            if field not in getattr(self, name):
                raise PodiumError(
                    f"Introspect.{name} = {getattr(self, name)!r} does not say where {field} is to stand."
                )
        for name, texts in (("names", self.names), ("replies", self.replies)):
            if texts[0].casefold() == texts[1].casefold() or not all(text.strip() for text in texts):
                raise PodiumError(f"Introspect.{name} = {texts!r}: give two different words.")

    @property
    def provides(self) -> tuple[str, ...]:
        votes = ("vote", "votes.feasible", "votes.infeasible", "votes.total")
        tried = ("able.rate", "able.claim") if self.trials else ()
        return tuple(
            f"rollout.{name}" for name in ("written", "fresh", "distinct", "declared", *votes, *tried, "purpose")
        )

    def read(self, text: str) -> bool | None:
        """What a vote says; None where it cannot be read."""
        lines = [line for line in text.casefold().splitlines() if line.strip()]
        word = lines[-1].split()[0].strip(".,;:!?'\"*") if lines else ""
        yes, no = (reply.casefold() for reply in self.replies)
        return True if word == yes else False if word == no else None

    def prompt(self, seeds: SeedPool, feasible: bool, stream: tuple[int, ...]) -> str:
        """Examples, drawn by the stream, and the label that is wanted."""
        rng = np.random.default_rng(key(0, (*stream, 6)))
        shown = []
        for label, texts in zip(self.names, seeds, strict=True):
            places = rng.permutation(len(texts))[: self.shots // 2].tolist()
            shown += [f"{label}: {texts[place]}" for place in places]
        lines = [shown[place] for place in rng.permutation(len(shown)).tolist()]
        return "\n".join([*lines, self.wanted.replace("{label}", self.names[0 if feasible else 1])])

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        seeds: SeedPool = tasks[0].recalled["group.seeds"]
        tried = [request for task in tasks for request in self._trial(task)]
        answers: Any = yield [*(self._writing(task, seeds) for task in tasks), *tried]
        candidates = self._candidates(tasks, answers[: len(tasks)], seeds)
        fresh = [candidate for candidate in candidates if candidate.fresh]
        asked = [self._questions(candidate, number) for number, candidate in enumerate(fresh)]
        replies = iter((yield [request for requests in asked for request in requests]) if asked else [])
        said = {number: [one for _ in requests for one in next(replies)] for number, requests in enumerate(asked)}
        numbers = {id(candidate): number for number, candidate in enumerate(fresh)}
        rollouts = []
        for candidate in candidates:
            number = numbers.get(id(candidate), -1)
            rollouts += self._rollouts(candidate, said.get(number, []), number)
        if self.trials:
            rollouts = self._tried(tasks, answers[len(tasks) :], rollouts)
        share = len(fresh) / max(len(candidates), 1)
        return [_with(rollout, {"distinct": share}) for rollout in rollouts]

    def _writing(self, task: TaskRequest, seeds: SeedPool) -> Play:
        prompt = self.prompt(seeds, _wants_feasible(task), task.stream)
        return dataclasses.replace(
            write_text(task, prompt, None, 0, self.n), sampling=self.draw.sampling(task.sampling)
        )

    def _candidates(self, tasks: Sequence[TaskRequest], answers: Sequence[Any], seeds: SeedPool) -> list[_Candidate]:
        """What was written; a text is fresh if nothing before it is alike."""
        known = [*seeds.feasible, *seeds.infeasible]
        candidates = []
        for task, rollouts in zip(tasks, answers, strict=True):
            for rollout in rollouts:
                text = str(rollout.columns["text"]).strip()
                fresh = bool(text) and not alike_to_any(text, known, self.alike)
                candidates.append(_Candidate(task, rollout, text, fresh))
                known += [text] if fresh else []
        return candidates

    def _questions(self, candidate: _Candidate, number: int) -> list[Request]:
        """The requests for the votes on a task: rollouts where they are trained."""
        if self.trained == "tasks":
            return self._asks(candidate.request, candidate.text, (7, number))
        question = self.question.replace("{task}", candidate.text)
        # The first n random streams are those of the tasks that were written.
        play = write_text(candidate.request, question, self.tokens, self.n + number, self.k)
        return [dataclasses.replace(play, sampling=self._sampling(candidate.request))]

    def _asks(self, task: TaskRequest, text: str, stream: tuple[int, ...]) -> list[Request]:
        question, sampling = self.question.replace("{task}", text), self._sampling(task)
        return [Ask(question, "policy", sampling, (*task.stream, *stream, vote)) for vote in range(self.k)]

    def _sampling(self, task: TaskRequest) -> Sampling:
        return self.draw.sampling(task.sampling).replace(max_tokens=self.tokens)

    def _rollouts(self, candidate: _Candidate, said: Sequence[Any], number: int) -> list[Rollout]:
        """A task that was written, and the votes on it where they are rollouts."""
        votes = [self.read(_text(one)) for one in said]
        declared, count = _wants_feasible(candidate.request), VoteCount.of(votes)
        used = Purpose.train if self.trained == "tasks" else Purpose.probe
        columns = _columns(declared, count, written=True, fresh=candidate.fresh)
        columns["purpose"] = used if candidate.fresh else Purpose.replaced
        rollouts = [_with(candidate.rollout, columns)]
        if self.trained == "votes":
            for rollout, vote in zip(said, votes, strict=True):
                columns = {**_columns(declared, count, vote), "purpose": Purpose.train}
                group = f"{rollout.group}, votes on {number}"
                rollouts.append(dataclasses.replace(_with(rollout, columns), group=group))
        return rollouts

    def _trial(self, task: TaskRequest) -> list[Request]:
        """The requests that say whether a task of the world can be done, and whether the policy thinks so."""
        if not self.trials:
            return []
        play = self.draw.play(task, self.trials, purpose=Purpose.probe)
        return [play, *self._asks(task, str(task.task.prompt), (8,))]

    def _tried(
        self, tasks: Sequence[TaskRequest], answers: Sequence[Any], rollouts: Sequence[Rollout]
    ) -> list[Rollout]:
        """The rollouts and the trials, with the columns of their task."""
        able: dict[Any, dict[str, float]] = {}
        trials: list[Rollout] = []
        for place, task in enumerate(tasks):
            played, *said = answers[place * (1 + self.k) : (place + 1) * (1 + self.k)]
            claims = [self.read(reply.text) is True for (reply,) in said]
            solved = [float(rollout.columns["reward"]) > 0.5 for rollout in played]
            rate = sum(solved) / max(len(solved), 1)
            able[task.task.key] = {"able.rate": rate, "able.claim": sum(claims) / self.k}
            trials += [_with(rollout, _columns(_wants_feasible(task), VoteCount())) for rollout in played]
        return [_with(rollout, able[rollout.task]) for rollout in (*rollouts, *trials)]


def _wants_feasible(task: TaskRequest) -> bool:
    """The label that is wanted of a group: one after the other."""
    return task.group % 2 == 0


def _text(said: Reply | Rollout) -> str:
    return said.text if isinstance(said, Reply) else str(said.columns["text"])


def _columns(
    declared: bool, count: VoteCount, vote: bool | None = None, written: bool = False, fresh: bool = False
) -> dict[str, Any]:
    return {
        "written": written,
        "fresh": fresh,
        "declared": declared,
        "vote": -1.0 if vote is None else float(vote),
        "votes.feasible": count.feasible,
        "votes.infeasible": count.infeasible,
        "votes.total": count.total,
    }


def _with(rollout: Rollout, columns: dict[str, Any]) -> Rollout:
    return dataclasses.replace(rollout, columns={**rollout.columns, **columns})
