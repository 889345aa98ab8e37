"""Sets of options: what a chooser sees and answers, as a text that a world writes and people can read.

    choose one
    depot: 0.5 0.5 0 0.75
    - 1: 0.12 0.9 0.3 0.75

The first line says what is asked for; every other line is a row with its name and numbers. A row after a dash is seen,
but cannot be chosen. There are four ways to choose:

- `one`: one of the rows. Answered by its number, counted from 0.
- `each`: yes or no for each row. Answered by 1 or 0 for each row that can be chosen, in order.
- `pairs`: yes or no for each pair of a row and a later one. Answered by 1 or 0 for each, in order.
- `one, then links`: one of the rows and, unless it is marked with a stop (`.`), yes or no for a link to it from every
  row that is marked with a plus. Answered by its number, and by 1 or 0 for each of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from podium.core.errors import PodiumError

__all__ = [
    "ALONE",
    "EACH",
    "LINKS",
    "ONE",
    "PAIRS",
    "OptionRow",
    "OptionSet",
    "choice_of",
    "decode_set",
    "encode_set",
    "read_set",
]

ONE, EACH, PAIRS, LINKS = "one", "each", "pairs", "one, then links"
KINDS = (ONE, EACH, PAIRS, LINKS)
DECIMALS = 3  # of the numbers
ALONE = -1  # in place of the second row of a pair: a row by itself
OPENING = "choose "
MARKS = {"-": "shown", "+": "source", ".": "final"}  # before the name of a row; without a mark: an option


@dataclass(frozen=True)
class OptionRow:
    """A row: an `option`; one that is only `shown`; a `source` of links, which is only shown otherwise; or a `final`
    option, which takes no links."""

    name: str
    numbers: tuple[float, ...]
    mark: str = "option"

    @property
    def allowed(self) -> bool:
        return self.mark in ("option", "final")


@dataclass(frozen=True)
class OptionSet:
    """What a chooser is asked."""

    kind: str
    rows: tuple[OptionRow, ...]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PodiumError(f"A set of options asks for {' or '.join(map(repr, KINDS))}, not for {self.kind!r}.")
        if not self.rows:
            raise PodiumError("A set of options is empty: give at least one row.")
        width = len(self.rows[0].numbers)
        for row in self.rows:
            if len(row.numbers) != width:
                raise PodiumError(f"The option {row.name!r} has {len(row.numbers)} numbers, the first one {width}.")
        if not any(row.allowed for row in self.rows):
            raise PodiumError(f"None of the {len(self.rows)} options can be chosen: all of them are masked.")
        if self.kind == PAIRS and not self.decided():
            raise PodiumError("There is no pair to choose: name at least two options.")

    def decided(self, first: int = -1) -> tuple[tuple[int, int], ...]:
        """What is decided by yes or no, in order, after the choice of a row where the set asks for one: pairs of rows,
        or a row and `ALONE`."""
        options = [n for n, row in enumerate(self.rows) if row.allowed]
        if self.kind == EACH:
            return tuple((n, ALONE) for n in options)
        if self.kind == PAIRS:
            return tuple(combinations(options, 2))
        if self.kind == LINKS and self.rows[first].mark != "final":
            return tuple((n, first) for n, row in enumerate(self.rows) if row.mark == "source")
        return ()

    def __str__(self) -> str:
        signs = {mark: f"{sign} " for sign, mark in MARKS.items()} | {"option": ""}
        lines = [
            f"{signs[r.mark]}{r.name}: {' '.join(f'{round(x, DECIMALS):g}' for x in r.numbers)}" for r in self.rows
        ]
        return "\n".join([OPENING + self.kind, *lines])


def read_set(text: str) -> OptionSet:
    """The set of options that a text describes, from the last line on that begins with `choose`."""
    lines = text.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith(OPENING)]
    if not starts:
        shown = " ".join(text.split())[:60]
        raise PodiumError(
            f"A chooser is asked {shown!r}, which is no set of options. Take a world that offers options, such as "
            "team or routes, or a language model (--model podium/tiny)."
        )
    rows = [_row(line) for line in lines[starts[-1] + 1 :] if line.strip()]
    return OptionSet(lines[starts[-1]].removeprefix(OPENING).strip(), tuple(rows))


def choice_of(text: str, options: OptionSet) -> tuple[int, ...] | None:
    """The choice that a text makes, for worlds; None: it is none that the set allows."""
    words = text.split()
    if not all(word.isdecimal() and len(word) < 6 for word in words):
        return None
    numbers = tuple(map(int, words))
    first = numbers[:1] if options.kind in (ONE, LINKS) else ()
    if options.kind in (ONE, LINKS) and (
        not first or first[0] >= len(options.rows) or not options.rows[first[0]].allowed
    ):
        return None
    rest = numbers[len(first) :]
    return numbers if len(rest) == len(options.decided(*first)) and set(rest) <= {0, 1} else None


def _row(line: str) -> OptionRow:
    name, found, numbers = line.rpartition(":")
    mark = MARKS.get(name[:1], "option") if name[1:2] == " " else "option"
    try:
        values = tuple(float(x) for x in numbers.split())
    except ValueError:
        values = ()
    if not found or not values:
        raise PodiumError(f"The line {line[:60]!r} of a set of options is no name, colon and numbers.")
    return OptionRow(name if mark == "option" else name[2:], values, mark)


# A set as integers, so that it can be the context of a turn: kind, rows, width, then for each row its mark and numbers.
_KIND, _MARK = {kind: n for n, kind in enumerate(KINDS)}, ("option", "shown", "source", "final")


def encode_set(options: OptionSet) -> tuple[int, ...]:
    """A set as integers, without the names of its rows."""
    scale = 10**DECIMALS
    numbers = [(_MARK.index(row.mark), *(round(x * scale) for x in row.numbers)) for row in options.rows]
    return (_KIND[options.kind], len(options.rows), len(numbers[0]), *(x for row in numbers for x in row))


def decode_set(ids: Sequence[int]) -> OptionSet:
    """The set that integers stand for; its rows have numbers for names."""
    kind, count, width = ids[:3]
    scale = 10**DECIMALS
    rows = []
    for number in range(count):
        mark, *values = ids[3 + number * width : 3 + (number + 1) * width]
        rows.append(OptionRow(str(number), tuple(x / scale for x in values), _MARK[mark]))
    return OptionSet(KINDS[kind], tuple(rows))
