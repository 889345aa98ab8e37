"""Small Python functions, run and judged by tests and by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from podium.core.errors import within
from podium.protocols.world import Task
from podium.worlds.code_algorithms import ALGORITHMS
from podium.worlds.code_basics import NUMBERS, SEQUENCES
from podium.worlds.code_dictionaries import DICTIONARIES
from podium.worlds.code_problem import CodeProblem, evaluated, written
from podium.worlds.judge import Judged
from podium.worlds.puzzle import Draft, Procedural, Slip

__all__ = ["CODE_FORMAT", "Code"]

LEVELS = {
    1: ("numbers", NUMBERS),
    2: ("sequences", SEQUENCES),
    3: ("dictionaries", DICTIONARIES),
    4: ("algorithms", ALGORITHMS),
}
SHORT = 60  # characters of an example that is shown beside another
CODE_FORMAT = "Use nothing but Python's standard library. End with the function in one ```python block."


class Code(Judged, Procedural):
    """Write a function: of a number (level 1), of a list or a text (2), with dictionaries or several steps (3), or an
    algorithm (4). Solutions are short (the reference), long (with a comment, often slow), or fast.

    The last of the hidden tests has large arguments, which show how fast a program is.
    """

    name = "code"
    summary = "Python functions, run in a sandbox, judged by tests and by time"
    levels = tuple(LEVELS)
    styles = ("short", "long", "fast")
    max_tokens = 320
    tests: int = 6  # hidden inputs

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "tests", 1, 100)

    def draft(self, rng: Random) -> Draft:
        domain, families = LEVELS[self.level]
        problem = rng.choice(families)(rng)
        question = f"{problem.call}: {problem.asks}"
        return Draft(f"code: {question}", question, {"problem": problem, "seed": rng.getrandbits(32)}, domain)

    def prompt(self, draft: Draft) -> str:
        problem: CodeProblem = draft.data["problem"]
        shown = [_example(problem, arguments) for arguments in _examples(draft.data)]
        if any(len(example) > SHORT for example in shown):
            shown = shown[:1]
        lines = [draft.question, *shown]
        if self.instructions:
            lines.append(
                f"Write the Python function `{problem.function}`, which returns {problem.asks}. It is tested with "
                f"other arguments too, a large one among them. {CODE_FORMAT}"
            )
        return "\n".join(lines)

    def task(self, index: int, split: str = "train") -> Task:
        task = super().task(index, split)
        problem: CodeProblem = task.data["problem"]
        examples, rng = _examples(task.data), Random(f"{task.data['seed']}/tests")
        inputs = [*(_other(problem, examples, rng) for _ in range(self.tests - 1)), problem.large(rng)]
        sources = {style: problem.source(style) for style in self.styles}
        data = {
            "function": problem.function,
            "tests": [(arguments, evaluated(problem, arguments)) for arguments in inputs],
            "sources": sources,
            "reference": written(sources["short"], Slip()),
        }
        return replace(task, data=data)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        return written(task.data["sources"][style], slip)

    def attempt(self, task: Task, style: str = "short", seed: int = 0, right: float = 1.0) -> str:
        """A program that is right with probability `right`; every step is equally likely to be wrong."""
        return self._attempt(self.write, task, style, seed, right)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return self.attempt(task, style, seed)

    def reference(self, task: Task) -> str:
        return str(task.data["reference"])


def _examples(data: Mapping[str, Any]) -> list[list[Any]]:
    rng = Random(f"{data['seed']}/examples")
    return [data["problem"].small(rng) for _ in range(2)]


def _other(problem: CodeProblem, examples: list[list[Any]], rng: Random) -> list[Any]:
    """Arguments that are not among the examples, unless there seem to be no others."""
    for _ in range(20):
        arguments = problem.small(rng)
        if arguments not in examples:
            break
    return arguments


def _example(problem: CodeProblem, arguments: list[Any]) -> str:
    return f"{problem.function}({', '.join(map(repr, arguments))}) == {evaluated(problem, arguments)!r}"
