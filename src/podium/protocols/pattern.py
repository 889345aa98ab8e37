"""Regular expressions as automata over characters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError

__all__ = ["CharacterAutomaton", "compiled"]

Characters = tuple[frozenset[str], bool]  # a set of characters, and whether it is the others that are meant
MOST_STATES = 4096


@dataclass(frozen=True)
class CharacterAutomaton:
    """A deterministic automaton. Characters that no part of the expression tells apart are of one kind."""

    next: NDArray[np.int64]  # [state, kind]; −1: no match any more
    accepting: NDArray[np.bool_]  # [state]
    kinds: dict[str, int]  # of the characters that the expression names; the last kind is that of all others

    def kind(self, character: str) -> int:
        return self.kinds.get(character, self.next.shape[1] - 1)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        state = 0
        for character in text:
            state = int(self.next[state, self.kind(character)])
            if state < 0:
                return False
        return bool(self.accepting[state])


class _Reader:
    """Reads an expression into an automaton that may be in several states at once."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0
        self.free: list[list[int]] = []  # [state] where it leads without a character
        self.moves: list[list[tuple[Characters, int]]] = []  # [state] where characters lead

    def wrong(self, what: str) -> PodiumError:
        return PodiumError(f"The expression {self.pattern!r} cannot be read: {what} at character {self.at + 1}.")

    def state(self) -> int:
        self.free.append([])
        self.moves.append([])
        return len(self.free) - 1

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def alternatives(self, begin: int) -> int:
        end = self.state()
        while True:
            inside = self.state()
            self.free[begin].append(inside)
            self.free[self.sequence(inside)].append(end)
            if self.peek() != "|":
                return end
            self.at += 1

    def sequence(self, begin: int) -> int:
        while self.peek() not in ("", "|", ")"):
            begin = self.repeated(begin)
        return begin

    def repeated(self, begin: int) -> int:
        start = self.at
        least, most, end_at = self.count(start)
        for _ in range(least):
            self.at = start
            begin = self.atom(begin)
        if most is None:
            loop = self.state()
            self.free[begin].append(loop)
            self.at = start
            self.free[self.atom(loop)].append(loop)
            begin = loop
        else:
            ends = [begin]
            for _ in range(most - least):
                self.at = start
                begin = self.atom(begin)
                ends.append(begin)
            begin = self.state()
            for end in ends:
                self.free[end].append(begin)
        self.at = end_at
        return begin

    def count(self, start: int) -> tuple[int, int | None, int]:
        """How often the atom that starts here is repeated, and where what follows begins."""
        size = len(self.free)
        self.atom(self.state())
        del self.free[size:], self.moves[size:]
        sign = self.peek()
        if sign and sign in "*+?":
            return int(sign == "+"), (1 if sign == "?" else None), self.at + 1
        if sign != "{":
            return 1, 1, self.at
        inside, closed, _ = self.pattern[self.at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        if not closed or not low.isdigit() or (high and not high.isdigit()):
            raise self.wrong("a count such as {2} or {2,5} is expected")
        least, most = int(low), int(high) if high else None if comma else int(low)
        if most is not None and most < max(least, 1):
            raise self.wrong("a count that is not empty is expected")
        return least, most, self.at + len(inside) + 2

    def atom(self, begin: int) -> int:
        sign = self.peek()
        self.at += 1
        if sign == "(":
            end = self.alternatives(begin)
            if self.peek() != ")":
                raise self.wrong("a closing bracket is missing")
            self.at += 1
            return end
        if sign == "" or sign in "|*+?{)]}":
            raise self.wrong("a character is expected")
        characters = (
            self.group() if sign == "[" else (frozenset(), True) if sign == "." else (frozenset(self.one(sign)), False)
        )
        end = self.state()
        self.moves[begin].append((characters, end))
        return end

    def one(self, sign: str) -> str:
        if sign != "\\":
            return sign
        escaped = self.peek()
        if not escaped:
            raise self.wrong("a character after \\ is expected")
        self.at += 1
        return {"n": "\n", "t": "\t"}.get(escaped, escaped)

    def group(self) -> Characters:
        others = self.peek() == "^"
        self.at += others
        members: set[str] = set()
        while self.peek() != "]":
            if not self.peek():
                raise self.wrong("a closing ] is missing")
            self.at += 1
            first = self.one(self.pattern[self.at - 1])
            last = first
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 2
                last = self.one(self.pattern[self.at - 1])
            members.update(map(chr, range(ord(first), ord(last) + 1)))
        self.at += 1
        return frozenset(members), others


@lru_cache(256)
def compiled(pattern: str) -> CharacterAutomaton:
    """The automaton of an expression; an error says where it cannot be read."""
    reader = _Reader(pattern)
    end = reader.alternatives(reader.state())
    if reader.at < len(pattern):
        raise reader.wrong("a bracket is closed that was not opened")
    named = {c for moves in reader.moves for (characters, _), _ in moves for c in characters}
    all_moves = [characters for moves in reader.moves for characters, _ in moves]
    kinds: dict[str, int] = {}
    signatures: dict[tuple[bool, ...], int] = {}
    for character in sorted(named):
        signature = tuple((character in members) != others for members, others in all_moves)
        kinds[character] = signatures.setdefault(signature, len(signatures))
    example = {kind: character for character, kind in kinds.items()}
    count = len(signatures) + 1

    def closed(states: set[int]) -> frozenset[int]:
        found, todo = set(states), list(states)
        while todo:
            for other in reader.free[todo.pop()]:
                if other not in found:
                    found.add(other)
                    todo.append(other)
        return frozenset(found)

    numbers = {closed({0}): 0}
    todo, table = [closed({0})], []
    for states in todo:  # grows
        row = []
        for kind in range(count):
            one = example.get(kind)
            reached = {
                target
                for state in states
                for (members, others), target in reader.moves[state]
                if (others if one is None else (one in members) != others)
            }
            if not reached:
                row.append(-1)
                continue
            after = closed(reached)
            if after not in numbers:
                numbers[after] = len(numbers)
                todo.append(after)
            row.append(numbers[after])
        table.append(row)
        if len(numbers) > MOST_STATES:
            raise PodiumError(f"The expression {pattern!r} needs more than {MOST_STATES} states: make it simpler.")
    return CharacterAutomaton(np.array(table), np.array([end in states for states in todo]), kinds)
