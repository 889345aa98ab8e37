"""Procedural puzzles: an endless supply of tasks, a separate test split, and solutions written in several styles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, TypeVar

from podium.core.errors import PodiumError, nearest
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.pieces import joined
from podium.protocols.world import Criterion, Task, World
from podium.worlds.graded import FORMAT, Graded, hashed_uniform

__all__ = ["Draft", "Procedural", "Puzzle", "Slip", "task_key"]

HELD_OUT = 1 / 8  # share of all questions that belongs to the test split
ATTEMPTS = 10_000  # draws before a split counts as empty


@dataclass(frozen=True)
class Draft:
    """A question that has not been assigned to a task yet."""

    question: str
    identity: str  # equal for questions that differ only in wording
    data: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""


class Slip:
    """Says at each step of a solution being written whether the step goes wrong, and counts the steps."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.steps = 0

    def __call__(self) -> bool:
        self.steps += 1
        return self.steps - 1 == self.at


T = TypeVar("T")
Writer = Callable[[Task, str, Random, Slip], T]


class Procedural(World):
    """A world whose questions are drawn from a random stream keyed by level, split and index.

    The split of a question is a hash of its identity, so that no test question occurs in training.
    """

    isolation = "inline"
    styles: ClassVar[tuple[str, ...]] = ("short", "long")

    def draft(self, rng: Random) -> Draft:
        """A random question of this level."""
        raise NotImplementedError

    def prompt(self, draft: Draft) -> str:
        """The first message to the model."""
        return draft.question

    @property
    def family(self) -> str:
        """The prefix of the tasks' keys: every setting that decides which questions are drawn."""
        return f"{self.name}-{self.level}"

    def task(self, index: int, split: str = "train") -> Task:
        key = task_key(self.family, split, index)
        for attempt in range(ATTEMPTS):
            draft = self.draft(Random(f"{key}/{attempt}"))
            if (hashed_uniform(self.name, draft.identity) < HELD_OUT) == (split == "test"):
                return Task(key, self.prompt(draft), self.level, draft.domain, draft.data)
        raise PodiumError(f"{self!r} has no {split} questions: its settings leave too few different ones.")

    def _attempt(self, write: Writer[T], task: Task, style: str, seed: int, right: float) -> T:
        """An attempt that is right with probability `right`; every step has the same probability of failure."""
        if style not in self.styles:
            raise PodiumError(f"{self.name} has no style {style!r}. {nearest(style, self.styles)}")
        key = f"{task.key}/{style}/{seed}"
        slip = Slip()
        solution = write(task, style, Random(key), slip)
        if right >= 1 or hashed_uniform("attempt", key) < right:
            return solution
        return write(task, style, Random(key), Slip(_first_failure(slip.steps, right, hashed_uniform("slip", key))))


class Puzzle(Procedural, Graded):
    """A procedural question with one answer."""

    provides = (*Graded.provides, "task.solution", "task.criteria", "task.steps")

    def explain(self, task: Draft) -> str:
        """The question in a sentence or two, for a general-purpose model or a person."""
        raise NotImplementedError

    def prompt(self, draft: Draft) -> str:
        if not self.instructions:
            return draft.question
        return joined("\n", (draft.question, f"{self.explain(draft)} {FORMAT}"))

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        """Reasoning and answer. Each step calls `slip()` once; if it returns True, the step goes wrong, and the rest
        follows from the wrong value to a wrong answer."""
        raise NotImplementedError

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return self.attempt(task, style, seed)

    def attempt(self, task: Task, style: str = "short", seed: int = 0, right: float = 1.0) -> str:
        """A written attempt that is right with probability `right`; every step has the same probability of failure."""
        return self._attempt(self.write, task, style, seed, right)

    def part(self, task: Task, number: int, draft: Draft) -> Task:
        """A subproblem of a task."""
        return Task(f"{task.key}/part-{number}", self.prompt(draft), task.level, draft.domain, draft.data)

    # -- checklists and steps --------------------------------------------------------------------------------------

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        """Each line of the short solution, an answer at the end, and that it is correct, which counts double.

        A rubric may be shown to the model, so it does not give the answer away: a line ends where that would begin.
        """
        steps = self.solve(task).splitlines()[:-1]
        found = re.compile(
            r"(?<!\w)" + r"\W+".join(map(re.escape, re.findall(r"\w+", self.reference(task)))) + r"(?!\w)"
        )
        texts = [line[: match.start()].rstrip() if (match := found.search(line)) else line for line in steps]
        last = (Criterion(f"end with `{ANSWER_MARK}`"), Criterion("the answer is right", 2.0))
        return *(Criterion(text or "a right first step") for text in texts), *last

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        """Step j of n is met if the text follows a solution in some style for at least j / n of its lines."""
        count = len(self.criteria(task)) - 2
        share = max(agreeing / max(len(lines) - 1, 1) for agreeing, lines in self._followed(task, text))
        answer = self.read(text)
        right = answer is not None and self.verdict(task, answer).correct
        return *(share >= (j + 1) / count for j in range(count)), answer is not None, right

    def step_scores(self, task: Task, text: str) -> tuple[float, ...]:
        """1 for every line up to which the text follows a solution in some style, 0 from there on."""
        agreeing = max(count for count, _ in self._followed(task, text))
        return tuple(float(number < agreeing) for number in range(len(text.splitlines())))

    def completed(self, task: Task, beginning: str) -> str | None:
        """The remaining lines of the first style whose solution begins like this."""
        written = beginning.splitlines()
        for agreeing, lines in self._followed(task, beginning):
            if agreeing == len(written):
                return "\n".join(lines[agreeing:])
        return None

    def _followed(self, task: Task, text: str) -> list[tuple[int, list[str]]]:
        """For each style, how many leading lines the text shares with its solution, and the solution."""
        written, shared = [line.strip() for line in text.splitlines()], []
        for style in self.styles:
            lines = self.solve(task, style).splitlines()
            alike = (a == b for a, b in zip(written, lines, strict=False))
            count = next((i for i, same in enumerate(alike) if not same), min(len(written), len(lines)))
            shared.append((count, lines))
        return shared


def _first_failure(steps: int, right: float, u: float) -> int:
    """The first step to fail, drawn by u, given that one does: all steps succeed with the same probability, and
    together with probability `right`."""
    success = right ** (1 / steps)
    reached = 1.0
    for step in range(steps):
        failed = reached * (1 - success) / (1 - right)
        if u < failed:
            return step
        u -= failed
        reached *= success
    return steps - 1


def task_key(family: str, split: str, index: int) -> str:
    """The key of a task."""
    if split not in ("train", "test"):
        raise PodiumError(f"There is no split {split!r}. {nearest(split, ('train', 'test'))}")
    if index < 0:
        raise PodiumError(f"Tasks are numbered from 0; {index} was asked for.")
    return f"{family}/{split}/{index}"


def answered(steps: list[str], answer: object) -> str:
    """The text of a solution: its steps, then the answer."""
    return "\n".join([*steps, f"{ANSWER_MARK} {answer}"])
