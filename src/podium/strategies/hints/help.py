"""Help for a task that is too hard: hints to show in the prompt, or ready answers."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.core.streams import key
from podium.core.value import Value
from podium.protocols.answer_text import answer_place
from podium.protocols.pieces import filled, joined
from podium.protocols.scaffold import Scaffold, with_hint
from podium.protocols.world import Episode, Feedback, Task, World
from podium.strategies.requests import Play, Recite, TaskRequest, Wave

__all__ = [
    "LAST",
    "Asking",
    "Help",
    "HintTiers",
    "Offer",
    "SelfWritten",
    "SolutionShares",
    "WorkedExamples",
    "hint_prompt",
    "reasoning",
    "solution",
    "without_reasoning",
    "write_text",
]

LAST = 1 << 20  # index of texts that are looked up and never become rollouts of the group
INSTRUCTION = (
    "{question}\nA solution:\n{solution}\nWrite three hints for it as a JSON object: level_1 names the idea, level_2 "
    "the method, level_3 details, none of them the answer."
)


@dataclass(frozen=True)
class Offer:
    """The help there is for a group: scaffolds to sample under, from least to most help, or answers; empty: none."""

    scaffolds: Sequence[Scaffold] = ()
    answers: Sequence[Rollout] = ()
    replaces: Sequence[int] | None = None  # which member of the group each answer replaces; None: the first ones
    side: Sequence[Rollout] = ()  # rollouts that were sampled to make the help, such as hints
    earlier: bool = False  # whether it was made when the task was last visited


Asking = Generator[Wave, list[Any], Offer]


class Help(Value):
    """A source of help for tasks that the policy fails: `Repair` and `Guided` ask it for an `Offer`."""

    @property
    def needs(self) -> tuple[Need, ...]:
        return ()

    @property
    def roles_asked(self) -> tuple[str, ...]:
        """Roles, besides the policy, whose models it queries."""
        return ()

    @property
    def writers(self) -> tuple[str, ...]:
        """The roles, besides the policy, that write its answers."""
        return ()

    def prepare(self, world: World | None) -> tuple[str, ...]:
        """Check its inputs before anything is sampled, as `Strategy.prepare` does."""
        return ()

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        """A sub-plan: yields the requests it needs, and returns the help for this group of the task."""
        raise NotImplementedError


def solution(task: TaskRequest, style: str) -> Generator[Wave, list[Any], str]:
    """The world's solution; empty where it has none, its own verdict rejects it, or it contains no reasoning."""
    (recited,) = yield [Recite(task, style=style, purpose=Purpose.probe, index=LAST, optional=True)]
    texts = [str(r.columns["text"]) for r in recited if r.columns["correct"]]
    return texts[0] if texts and reasoning(texts[0]) else ""


def reasoning(text: str) -> str:
    """A solution without its final answer."""
    place = answer_place(text)
    return (text if place is None else text[:place]).rstrip()


def without_reasoning(world: World | None, style: str) -> tuple[str, ...]:
    """A warning for a world whose first tasks have solutions without reasoning, from which no hints can be taken."""
    if world is None or any(reasoning("\n".join(world.demonstrate(t, style))) for t in _first_tasks(world)):
        return ()
    return (
        f"Hints are taken from the reasoning of solutions, but those of the world {world.name!r} hold an answer alone: "
        "its tasks get none (help.missing in the metrics). Take a world that reasons; for a file of JSON lines name "
        "the field that has solutions, with world.solution_field=…",
    )


def _first_tasks(world: World, count: int = 8) -> list[Task]:
    return [world.task(i) for i in range(min(count, world.size("train") or count))]


class SolutionShares(Help):
    """The beginning of the world's solution as a hint: one scaffold for each share of its characters or lines.

    A share ω shows the first ω n of n characters, or of the n lines of reasoning, rounded to the nearest, half to even.
    """

    shares: tuple[float, ...] = (0.25, 0.5, 0.75)  # in [0, 1], the least help first
    unit: str = "characters"  # characters or lines
    style: str = "short"  # of the world's solution

    needs = ("task.solution",)

    def __post_init__(self) -> None:
        one_of(self, "unit", ("characters", "lines"))
        if not self.shares or not all(0 <= share <= 1 for share in self.shares):
            raise PodiumError(f"SolutionShares.shares = {self.shares} must be shares between 0 and 1.")

    def prepare(self, world: World | None) -> tuple[str, ...]:
        return without_reasoning(world, self.style)

    def cut(self, text: str, share: float) -> str:
        """The part of a solution that a share shows."""
        if self.unit == "characters":
            return text[: round(len(text) * share)]
        lines = reasoning(text).splitlines()
        return "\n".join(lines[: round(len(lines) * share)])

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        text = yield from solution(task, self.style)
        return Offer([Scaffold(self.cut(text, share)) for share in self.shares] if text else ())


class HintTiers(Help):
    """Tiers of hints from abstract to concrete, revealed piece by piece: the first piece of a tier, the first two, …

    The task brings them as `hints`: a list of pieces for each tier. Without them, the lines of the world's solution in
    `pieces` parts are the pieces of the tier `solution`.
    """

    reference = "Scaf-GRPO, https://github.com/dvlab-research/Scaf-GRPO"
    tiers: tuple[str, ...] = ("knowledge", "solution")  # the release leaves `planning` out
    pieces: int = 4  # of a tier at most
    levels: int | None = None  # scaffolds of all tiers together at most; None: all
    style: str = "short"  # of the world's solution

    needs = ("task.solution",)

    def __post_init__(self) -> None:
        within(self, "pieces", 1)
        within(self, "levels", 1, optional=True)

    def prepare(self, world: World | None) -> tuple[str, ...]:
        if world is not None and any(task.data.get("hints") for task in _first_tasks(world)):
            return ()
        return without_reasoning(world, self.style)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        hints: Mapping[str, Sequence[str]] = task.task.data.get("hints") or {}
        if not hints:
            text = yield from solution(task, self.style)
            hints = {"solution": _parts(reasoning(text).splitlines(), self.pieces)}
        scaffolds = [
            Scaffold("\n".join(map(str, hints[tier][: count + 1])))
            for tier in self.tiers
            for count in range(min(len(hints.get(tier, ())), self.pieces))
        ]
        return Offer(scaffolds[: self.levels])


def _parts(lines: Sequence[str], count: int) -> list[str]:
    """The lines in at most `count` parts of about equal size."""
    size = math.ceil(len(lines) / count) or 1
    return ["\n".join(lines[i : i + size]) for i in range(0, len(lines), size)]


class SelfWritten(Help):
    """Hints of rising strength that the policy itself writes after seeing the solution.

    `ask` is the prompt, with {question} and {solution}; the answer is a JSON object with level_1, level_2, … With an
    empty `ask`, for small models that follow no instructions, the solution is shown as a hint, and the lines that the
    policy then writes, without the final answer, are cut into `levels` + 1 parts: level k is the first k of them. An
    answer that cannot be parsed is sampled again, `retries` times; after that the hints of an earlier visit are used,
    if `earlier` names the column of a memory that recalls them.
    """

    reference = "SAGE: Self-Hinting Language Models Enhance Reinforcement Learning, https://github.com/BaohaoLiao/SAGE"
    ask: str = INSTRUCTION  # may contain {question} and {solution}; empty: show the solution as a hint
    levels: int = 3  # hints
    retries: int = 2
    tokens: int | None = None  # token limit for writing the hints; None: that of an answer
    style: str = "short"  # of the world's solution
    earlier: str | None = None  # a column such as group.hints

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution",) if self.earlier is None else ("task.solution", self.earlier)

    def __post_init__(self) -> None:
        within(self, "levels", 1)
        within(self, "retries", 0)
        within(self, "tokens", 1, optional=True)
        hint_prompt(self.ask, "", "")

    def prepare(self, world: World | None) -> tuple[str, ...]:
        return without_reasoning(world, self.style)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        text = yield from solution(task, self.style)
        side: list[Rollout] = []
        for attempt in range(self.retries + 1 if text else 0):
            prompt = hint_prompt(self.ask, task.task.prompt, text)
            (written,) = yield [write_text(task, prompt, self.tokens, attempt)]
            side += written
            hints = self.read(str(written[0].columns["text"])) if written else []
            if hints:
                return Offer([Scaffold(hint) for hint in hints], side=side)
        kept = () if self.earlier is None else task.recalled[self.earlier]
        return Offer([Scaffold(hint) for hint in kept], side=side, earlier=bool(kept))

    def read(self, text: str) -> list[str]:
        """The hints in an answer, the weakest first; none where it cannot be parsed."""
        if self.ask:
            start, end = text.find("{"), text.rfind("}")
            try:
                data = json.loads(text[start : end + 1]) if 0 <= start < end else {}
            except (ValueError, RecursionError):
                return []
            hints = [data.get(f"level_{number + 1}") for number in range(self.levels)]
            return [str(hint) for hint in hints] if all(hints) else []
        lines = reasoning(text).splitlines()
        cuts = [math.ceil(len(lines) * number / (self.levels + 1)) for number in range(1, self.levels + 1)]
        return ["\n".join(lines[:cut]) for cut in cuts] if lines else []


def hint_prompt(template: str, question: str, solution_text: str, attempt: str = "") -> str:
    """The prompt of a model that writes hints; without a template, the question with the solution as a hint."""
    if not template:
        return with_hint(question, solution_text)
    try:
        return filled(template, question=question, solution=solution_text, attempt=attempt)
    except (KeyError, IndexError, ValueError) as error:
        fields = "{question}, {solution} and {attempt}"
        raise PodiumError(f"A prompt for hints may name only {fields}, not as {template!r}: {error}.") from error


def write_text(
    task: TaskRequest, prompt: str, tokens: int | None, number: int, n: int = 1, role: str = "policy"
) -> Play:
    """A request for `n` texts by a role that are no answers to the task: recorded, not graded."""
    sampling = task.sampling if tokens is None else task.sampling.replace(max_tokens=tokens)
    return Play(
        task,
        n,
        sampling,
        purpose=Purpose.probe,
        first=LAST + number * n,
        wave=LAST,
        context=Scaffold(),
        wrap=partial(_Writing, prompt),
        role=role,
    )


class _Writing(Episode):
    """An episode of one turn that asks for a text and does not grade it."""

    def __init__(self, prompt: str, episode: Episode) -> None:
        super().__init__(prompt, episode.state)
        self.agent = episode.agent

    def act(self, text: str) -> Feedback:
        return Feedback(state=self.state)


class WorkedExamples(Help):
    """Other tasks of the same world with their solutions above the question: few-shot examples.

    Solutions that the world's own verdict rejects, or that do not fit into the context, are not shown.
    """

    reference = "ICPO: In-Context Steered Policy Optimization, https://arxiv.org/abs/2510.26519"
    count: int = 1  # examples
    pool: int = 64  # how many of the world's first tasks they are taken from
    style: str = "short"  # of the world's solutions

    needs = ("task.solution",)

    def __post_init__(self) -> None:
        within(self, "count", 1)
        within(self, "pool", self.count)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        assert task.world is not None
        size = min(self.pool, task.world.size("train") or self.pool)
        start = key(0, task.stream) % size
        candidates = (task.world.task((start + step) % size, "train") for step in range(size))
        others = [other for other in islice(candidates, self.count + 1) if other.key != task.task.key][: self.count]
        wave: Wave = [
            Recite(replace(task, task=other), style=self.style, purpose=Purpose.probe, index=LAST, optional=True)
            for other in others
        ]
        answers = (yield wave) if wave else []
        verified = [any(rollout.columns["correct"] for rollout in answer) for answer in answers]
        solved = [other for other, right in zip(others, verified, strict=True) if right]
        examples = [joined("\n", (other.prompt, task.world.solve(other, self.style), "")) for other in solved]
        return Offer([Scaffold(above=joined("\n", examples))] if examples else ())
