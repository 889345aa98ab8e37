"""An exercise: a prompt, a demonstration that is right as often as one wishes, and the replies to any turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeVar

__all__ = ["Exercise", "Response", "any_other", "asked_once", "last_line_after"]

T = TypeVar("T")


class Response(NamedTuple):
    """What the turns so far lead to: what the model sees next, or that it is over, and whether it was right."""

    text: str = ""
    done: bool = True
    right: bool = False


@dataclass(frozen=True)
class Exercise:
    """One task: pure functions of a random stream and of the turns written so far."""

    prompt: str
    demonstrate: Callable[[Random, float], tuple[str, ...]]  # turns that are right with this probability
    respond: Callable[[Sequence[str]], Response]  # to the last of these turns


def asked_once(prompt: str, write: Callable[[Random, float], str], right: Callable[[str], bool]) -> Exercise:
    """An exercise of one turn: `write` gets a random stream and the probability of being right."""
    return Exercise(
        prompt,
        lambda rng, chance: (write(rng, chance),),
        lambda turns: Response(right=right(turns[-1])),
    )


def last_line_after(text: str, mark: str) -> str | None:
    """What stands after the mark in the last line that begins with it; None: no line does."""
    for line in reversed(text.splitlines()):
        if line.startswith(mark):
            return line[len(mark) :].strip()
    return None


def any_other(rng: Random, options: Sequence[T], one: T) -> T:
    """A random option that is not this one."""
    return rng.choice([option for option in options if option != one])
