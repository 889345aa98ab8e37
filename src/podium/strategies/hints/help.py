"""Help for a task that is too hard: hints to write under, and answers that are there already."""

from __future__ import annotations

import json
import math
import re
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
from podium.protocols.scaffold import Scaffold, with_hint
from podium.protocols.world import Episode, Feedback, Task, World
from podium.strategies.requests import Play, Recite, TaskRequest, Wave

__all__ = [
    "WorkedExamples",
    "Help",
    "HintTiers",
    "Offer",
    "SelfWritten",
    "SolutionShares",
    "Words",
    "solution",
]

LAST = 1 << 20  # index of what is looked up and never becomes a rollout of the group
INSTRUCTION = (
    "{question}\nA solution:\n{solution}\nWrite three hints for it as a JSON object: level_1 names the idea, level_2 "
    "the method, level_3 details, none of them the answer."
)


@dataclass(frozen=True)
class Offer:
    """What help there is for a group: scaffolds to sample under, the least help first, or answers; empty: none."""

    scaffolds: Sequence[Scaffold] = ()
    answers: Sequence[Rollout] = ()
    places: Sequence[int] | None = None  # whose place in the group each answer takes; None: it does not matter
    side: Sequence[Rollout] = ()  # what was sampled on the way
    earlier: bool = False  # whether it was made at an earlier visit of the task


Asking = Generator[Wave, list[Any], Offer]


class Help(Value):
    """A source of help."""

    writer = "policy"  # the role that is asked for it

    @property
    def needs(self) -> tuple[Need, ...]:
        return ()

    def prepare(self, world: World | None) -> tuple[str, ...]:
        """Look at what there is, as `Strategy.prepare`."""
        return ()

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        """A plan within a plan: asks for what it takes, and returns what it found for a group that went wrong."""
        raise NotImplementedError


def solution(task: TaskRequest, style: str) -> Generator[Wave, list[Any], str]:
    """The world's solution; empty where it has none, one that its own verdict refuses, or one without reasoning."""
    (found,) = yield [Recite(task, style=style, purpose=Purpose.probe, index=LAST, optional=True)]
    texts = [str(r.columns["text"]) for r in found if r.columns["correct"]]
    return texts[0] if texts and reasoning(texts[0]) else ""


def reasoning(text: str) -> str:
    """A solution without its answer."""
    place = answer_place(text)
    return (text if place is None else text[:place]).rstrip()


def without_reasoning(world: World | None, style: str) -> tuple[str, ...]:
    """What to say of a world whose first tasks have nothing to take hints from; nothing of others."""
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
    """The first parts of the world's solution, by shares of its characters or of its lines.

    Of n characters ω n are shown, of the lines of reasoning too, both rounded to the nearest, halves to even.
    """

    shares: tuple[float, ...] = (0.25, 0.5, 0.75)
    unit: str = "characters"  # or lines
    style: str = "short"

    needs = ("task.solution",)

    def __post_init__(self) -> None:
        one_of(self, "unit", ("characters", "lines"))
        if not self.shares or not all(0 <= share <= 1 for share in self.shares):
            raise PodiumError(f"SolutionShares.shares = {self.shares} must be shares between 0 and 1.")

    def prepare(self, world: World | None) -> tuple[str, ...]:
        return without_reasoning(world, self.style)

    def cut(self, text: str, share: float) -> str:
        """What is shown of a solution."""
        if self.unit == "characters":
            return text[: round(len(text) * share)]
        lines = reasoning(text).splitlines()
        return "\n".join(lines[: round(len(lines) * share)])

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        text = yield from solution(task, self.style)
        return Offer([Scaffold(self.cut(text, share)) for share in self.shares] if text else ())


class HintTiers(Help):
    """Hints from abstract to concrete, piece by piece: the first piece of a tier, then its first two, …

    They come with the task, as `hints`: a list of pieces for each tier. Without any the lines of the world's solution
    are the pieces of the tier `solution`, in `pieces` parts.
    """

    reference = "Scaf-GRPO, https://github.com/dvlab-research/Scaf-GRPO"
    tiers: tuple[str, ...] = ("knowledge", "solution")  # the release leaves `planning` out
    pieces: int = 4  # of a tier at most
    levels: int | None = None  # in all at most
    style: str = "short"

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
        found = [
            Scaffold("\n".join(map(str, hints[tier][: count + 1])))
            for tier in self.tiers
            for count in range(min(len(hints.get(tier, ())), self.pieces))
        ]
        return Offer(found[: self.levels])


def _parts(lines: Sequence[str], count: int) -> list[str]:
    """The lines in at most `count` parts of about equal size."""
    size = math.ceil(len(lines) / count) or 1
    return ["\n".join(lines[i : i + size]) for i in range(0, len(lines), size)]


class SelfWritten(Help):
    """Hints of rising strength that the policy writes itself after it was shown the solution.

    `ask` says how it is asked, with {question} and {solution}; its answer is a JSON object with level_1, level_2, …
    Without `ask` the solution stands where hints do, and of what the policy then writes, the answer aside, the first
    part of the lines is level 1, the first two parts level 2, …: a small model knows no more. What cannot be read is
    asked for again, `retries` times; then hints of an earlier visit are shown, if `earlier` names a column of a memory
    that recalls them.
    """

    reference = "SAGE: Self-Hinting Language Models Enhance Reinforcement Learning, https://github.com/BaohaoLiao/SAGE"
    ask: str = INSTRUCTION
    levels: int = 3
    retries: int = 2
    tokens: int | None = None  # of the hints at most; None: as for an answer
    style: str = "short"
    earlier: str | None = None  # such as group.hints

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution",) if self.earlier is None else ("task.solution", self.earlier)

    def __post_init__(self) -> None:
        within(self, "levels", 1)
        within(self, "retries", 0)
        within(self, "tokens", 1, optional=True)
        ask_for_help(self.ask, "", "")

    def prepare(self, world: World | None) -> tuple[str, ...]:
        return without_reasoning(world, self.style)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        text = yield from solution(task, self.style)
        side: list[Rollout] = []
        for attempt in range(self.retries + 1 if text else 0):
            (written,) = yield [wording(task, ask_for_help(self.ask, task.task.prompt, text), self.tokens, attempt)]
            side += written
            hints = self.read(str(written[0].columns["text"])) if written else []
            if hints:
                return Offer([Scaffold(hint) for hint in hints], side=side)
        kept = () if self.earlier is None else task.known[self.earlier]
        return Offer([Scaffold(hint) for hint in kept], side=side, earlier=bool(kept))

    def read(self, text: str) -> list[str]:
        """The hints, the weakest first; none where they cannot be read."""
        if self.ask:
            found = re.search(r"\{.*\}", text, re.DOTALL)
            try:
                data = json.loads(found[0]) if found else {}
            except ValueError:
                return []
            hints = [data.get(f"level_{number + 1}") for number in range(self.levels)]
            return [str(hint) for hint in hints] if all(hints) else []
        lines = reasoning(text).splitlines()
        cuts = [math.ceil(len(lines) * number / (self.levels + 1)) for number in range(1, self.levels + 1)]
        return ["\n".join(lines[:cut]) for cut in cuts] if lines else []


def ask_for_help(form: str, question: str, text: str, attempt: str = "") -> str:
    """What stands in the prompt of someone who writes hints."""
    try:
        return form.format(question=question, solution=text, attempt=attempt) if form else with_hint(question, text)
    except (KeyError, IndexError, ValueError) as error:
        known = "{question}, {solution} and {attempt}"
        raise PodiumError(f"A request for hints may name {known} only, not as {form!r}: {error}.") from error


def wording(task: TaskRequest, prompt: str, tokens: int | None, number: int, n: int = 1, role: str = "policy") -> Play:
    """Ask a role for a text that is no answer to the task: recorded, not graded."""
    sampling = task.sampling if tokens is None else task.sampling.replace(max_tokens=tokens)
    return Play(
        task,
        n,
        sampling,
        purpose=Purpose.probe,
        first=LAST + number * n,
        wave=LAST,
        context=Scaffold(),
        wrap=partial(Words, prompt),
        role=role,
    )


class Words(Episode):
    """A text is asked for and taken as it is."""

    def __init__(self, prompt: str, episode: Episode) -> None:
        super().__init__(prompt, episode.state)
        self.agent = episode.agent

    def act(self, text: str) -> Feedback:
        return Feedback(state=self.state)


class WorkedExamples(Help):
    """Other tasks of the same world with their solutions, above the question: learning in context.

    A solution that the world's own verdict refuses, or that does not fit into the context, is not shown.
    """

    reference = "ICPO: In-Context Steered Policy Optimization, https://arxiv.org/abs/2510.26519"
    count: int = 1
    pool: int = 64  # of the world's first tasks
    style: str = "short"

    needs = ("task.solution",)

    def __post_init__(self) -> None:
        within(self, "count", 1)
        within(self, "pool", self.count)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        assert task.world is not None
        size = min(self.pool, task.world.size("train") or self.pool)
        place = key(0, task.stream) % size
        around = (task.world.task((place + step) % size, "train") for step in range(size))
        others = [other for other in islice(around, self.count + 1) if other.key != task.task.key][: self.count]
        recited: Wave = [
            Recite(replace(task, task=other), style=self.style, purpose=Purpose.probe, index=LAST, optional=True)
            for other in others
        ]
        answers = (yield recited) if recited else []
        right = [any(rollout.columns["correct"] for rollout in found) for found in answers]
        solved = [other for other, verified in zip(others, right, strict=True) if verified]
        shown = [f"{other.prompt}\n{task.world.solve(other, self.style)}\n" for other in solved]
        return Offer([Scaffold(above="\n".join(shown))] if shown else ())
