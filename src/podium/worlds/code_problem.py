"""A problem of the world `code`: a function, three ways to write it, and inputs to test it with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from podium.worlds.puzzle import Slip

__all__ = ["CodeProblem", "evaluated", "integers", "letters", "written"]

Inputs = Callable[[Random], list[Any]]
CHOICE = re.compile("«([^|»]*)\\|([^»]*)»")  # the right and the wrong way to write a step


@dataclass(frozen=True)
class CodeProblem:
    """A function to be written. In its solutions, `«a|b»` is a step: a is right, b is wrong."""

    call: str  # the head of the function: "keep(xs)"
    asks: str  # what it returns, as a phrase
    short: str  # the reference: the plain solution
    long: str  # step by step, with a comment, and often slow
    fast: str
    small: Inputs  # draws arguments for an example or a test
    large: Inputs  # draws arguments for which it takes some milliseconds, if it can

    @property
    def function(self) -> str:
        return self.call.partition("(")[0]

    def source(self, style: str) -> str:
        """The function in a style, with its steps marked."""
        body = {"short": self.short, "long": self.long, "fast": self.fast}[style]
        return f"def {self.call}:\n" + "\n".join(f"    {line}" for line in body.strip("\n").splitlines())


def written(source: str, slip: Slip) -> str:
    """A solution with each step written out, right or, where `slip` says so, wrong."""
    return CHOICE.sub(lambda step: step[2] if slip() else step[1], source)


@lru_cache(1024)
def _compiled(source: str, function: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(source, namespace)  # a solution of this package, not of a model
    return namespace[function]


def evaluated(problem: CodeProblem, arguments: list[Any]) -> Any:
    """What the function returns for these arguments."""
    return _compiled(written(problem.source("fast"), Slip()), problem.function)(*arguments)


def integers(rng: Random, count: int, low: int, high: int) -> list[int]:
    """Random whole numbers."""
    return [rng.randint(low, high) for _ in range(count)]


def letters(rng: Random, count: int, alphabet: str = "abcdefghijklmnopqrstuvwxyz") -> str:
    """Random letters."""
    return "".join(rng.choices(alphabet, k=count))
