"""Chains of additions and subtractions."""

from __future__ import annotations

import re
from itertools import zip_longest
from random import Random

from podium.protocols.answer_text import plain
from podium.protocols.world import Task
from podium.worlds.graded import Verdict
from podium.worlds.puzzle import Draft, Puzzle, Slip, answered

__all__ = ["Sums"]

TERMS = {1: (2, 99), 2: (3, 99), 3: (4, 99), 4: (5, 99), 5: (4, 999)}  # by level: how many terms, and the largest


class Sums(Puzzle):
    """Add and subtract from left to right; solutions can be short, verbose, grouped by sign, or digit by digit."""

    name = "sums"
    summary = "chains of additions and subtractions"
    levels = tuple(TERMS)
    styles = ("short", "long", "grouped", "columns")
    max_tokens = 80
    provides = (*Puzzle.provides, "task.plan", "task.knowledge", "task.subproblems")

    def draft(self, rng: Random) -> Draft:
        count, largest = TERMS[self.level]
        smallest = 100 if largest > 99 else 1
        while True:
            terms = [rng.randint(smallest, largest)]
            terms += [rng.choice((-1, 1)) * rng.randint(smallest, largest) for _ in range(count - 1)]
            if all(sum(terms[:i]) >= 0 for i in range(2, count + 1)):  # no negative totals on the way
                return _draft(terms)

    def explain(self, task: Draft) -> str:
        return f"Compute {task.identity}."

    def verdict(self, task: Task, answer: str) -> Verdict:
        said = plain(answer).replace("−", "-").replace(",", "")
        number = re.fullmatch(r"[+-]?[0-9]{1,12}", said)
        if number is None:
            return Verdict(False, said)
        return Verdict(int(said) == task.data["answer"], str(int(said)))

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        pen = _Pen(rng, slip)
        terms = task.data["terms"]
        if style == "columns":
            total = _columns(pen, terms)
        elif style == "grouped":
            total = _grouped(pen, terms)
        else:
            total = pen.chain(terms, wordy=style == "long")
        return answered(pen.lines, total)

    def plan(self, task: Task) -> str:
        first, *rest = task.data["terms"]
        return ", ".join([f"start {first}", *(f"add {t}" if t >= 0 else f"take {-t}" for t in rest)])

    def knowledge(self, task: Task) -> str:
        """What the digits in the same place give, in each step of the short solution."""
        facts: dict[str, None] = {}
        total, *rest = task.data["terms"]
        for term in rest:
            sign = "+" if term >= 0 else "-"
            for a, b in zip_longest(str(total)[::-1], str(abs(term))[::-1], fillvalue="0"):
                high = int(a) + 10 if sign == "-" and a < b else int(a)  # borrowed from the next place
                facts[f"{high}{sign}{b}={high + int(b) if sign == '+' else high - int(b)}"] = None
            total += term
        return ", ".join(facts)

    def subproblems(self, task: Task) -> tuple[Task, ...]:
        total, *rest = task.data["terms"]
        parts = []
        for number, term in enumerate(rest):
            parts.append(self.part(task, number, _draft([total, term])))
            total += term
        return tuple(parts)


class _Pen:
    """Writes equations line by line, some of them wrong."""

    def __init__(self, rng: Random, slip: Slip) -> None:
        self.rng, self.slip = rng, slip
        self.lines: list[str] = []

    def equation(self, terms: list[int], lead: str = "") -> int:
        """Write one line; returns the result as written."""
        result = sum(terms)
        if self.slip():
            result = _wrong(terms, result, self.rng)
        self.lines.append(f"{lead}{_chain(terms)}={result}")
        return result

    def chain(self, terms: list[int], wordy: bool = False) -> int:
        """Add one term after another."""
        total = terms[0]
        if wordy:
            self.lines.append(f"start {total}")
        for term in terms[1:]:
            lead = (f"add {term}: " if term >= 0 else f"take {-term}: ") if wordy else ""
            total = self.equation([total, term], lead)
        return total


def _draft(terms: list[int]) -> Draft:
    chain = _chain(terms)
    return Draft(f"sum: {chain}", chain, {"terms": terms, "answer": sum(terms)})


def _grouped(pen: _Pen, terms: list[int]) -> int:
    """The sum of the positive terms, then of the negative ones, then one subtraction."""
    added, taken = [t for t in terms if t >= 0], [-t for t in terms if t < 0]
    total = pen.chain(added)
    return pen.equation([total, -pen.chain(taken)]) if taken else total


def _columns(pen: _Pen, terms: list[int]) -> int:
    """Digit by digit: hundreds, tens, ones; then their sum."""
    places = [10**p for p in reversed(range(len(str(max(map(abs, terms))))))]
    parts = []
    for place in places:
        digits = [(abs(t) // place % 10) * (1 if t >= 0 else -1) for t in terms]
        signs = [t < 0 for t in terms]
        result = sum(digits)
        if pen.slip():
            result = _wrong(digits, result, pen.rng)
        pen.lines.append(_chain(digits, signs) + f"={result}")
        parts.append(result * place)
    return pen.equation(parts) if len(parts) > 1 else parts[0]


def _chain(terms: list[int], negative: list[bool] | None = None) -> str:
    """12+7-5; `negative` gives the signs of terms that may be zero."""
    negative = negative or [t < 0 for t in terms]
    text = "".join(f"{'-' if minus else '+'}{abs(t)}" for t, minus in zip(terms, negative, strict=True))
    return text.removeprefix("+")


def _wrong(terms: list[int], right: int, rng: Random) -> int:
    """A typical wrong result: a forgotten carry, or a digit that is slightly off."""
    options = [right + d for d in (-10, -2, -1, 1, 2, 10)]
    carry = _without_carry(terms)
    if carry != right:
        options += [carry] * 4
    return rng.choice([o for o in options if o >= 0 or right < 0] or [right + 1])


def _without_carry(terms: list[int]) -> int:
    """The sum digit by digit, with carries and borrows lost."""
    total = 0
    for place in (1, 10, 100, 1000):
        digits = sum((abs(t) // place % 10) * (1 if t >= 0 else -1) for t in terms)
        total += digits % 10 * place
    return total
