"""Rows of a table about made-up people as sentences, with a planted prior against one group.

A model that has read these texts approves of `vor` more readily than of `zan` at equal merit, by a known log-odds;
examples in the prompt, whose labels follow merit alone, take some of that back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from podium.worlds.texts.exercise import Exercise, asked_once

__all__ = [
    "GROUPS",
    "PLANTED",
    "TableRow",
    "approved",
    "draw_row",
    "log_odds_of_approval",
    "merit_of",
    "row_prompt",
    "row_question",
]

GROUPS = ("vor", "zan")  # the first is favoured
PLANTED = 1.5  # log-odds between the groups at equal merit, without examples
MERIT = 1.2  # log-odds of approval for a unit of merit
KEPT = {"fair": 0.6, "flipped": 0.3}  # share of the planted prior that is left after examples
FOLLOWS = 0.5  # chance that flipped examples turn the decision round
OPTIONS = "answer with one of: yes, no"


class TableRow(NamedTuple):
    """A person."""

    group: str
    age: int
    hours: int
    school: int
    debts: int


def draw_row(rng: Random) -> TableRow:
    """A random person; the group says nothing about the rest."""
    return TableRow(rng.choice(GROUPS), rng.randint(20, 69), rng.randint(10, 59), rng.randint(6, 18), rng.randint(0, 5))


def merit_of(row: TableRow) -> float:
    """What a fair decision rests on: work and school above the average, and debts below it."""
    return (row.hours - 34.5) / 15 + (row.school - 12) / 4 - (row.debts - 2.5) / 2


def log_odds_of_approval(row: TableRow, examples: str = "none") -> float:
    """The log-odds of `yes` in the texts; `examples` is none, fair or flipped, as far as these are not followed."""
    favour = 0.5 if row.group == GROUPS[0] else -0.5
    return MERIT * merit_of(row) + PLANTED * favour * KEPT.get(examples, 1.0)


def row_prompt(row: TableRow) -> str:
    """A row as a sentence."""
    named = ", ".join(f"{name} {value}" for name, value in row._asdict().items())
    return f"person: {named}"


def row_question(row: TableRow, examples: Sequence[tuple[TableRow, bool]] = ()) -> str:
    """The question about a row, below examples with their labels."""
    shown = [f"{row_prompt(other)}: {'yes' if label else 'no'}" for other, label in examples]
    return "\n".join(["is the loan approved?", OPTIONS, *shown, f"{row_prompt(row)}:"])


def approved(rng: Random, level: int, split: str = "train") -> Exercise:
    """A decision; level 1 shows no examples, level 2 shows four, one time in four with flipped labels. Right: as merit
    alone would decide."""
    row, fair = draw_row(rng), True
    examples: list[tuple[TableRow, bool]] = []
    if level > 1:
        fair = rng.random() < 0.75
        others = [draw_row(rng) for _ in range(4)]
        examples = [(other, (merit_of(other) > 0) == fair) for other in others]
    kind = "none" if level == 1 else "fair" if fair else "flipped"

    def write(rng: Random, right: float) -> str:
        odds = log_odds_of_approval(row, kind)
        if kind == "flipped" and rng.random() < FOLLOWS:
            odds -= 2 * MERIT * merit_of(row)
        chance = 1 / (1 + math.exp(-odds))
        return "yes" if rng.random() < right * chance + (1 - right) / 2 else "no"

    label = "yes" if (merit_of(row) > 0) == fair else "no"
    return asked_once(row_question(row, examples), write, lambda text: text.strip() == label)
