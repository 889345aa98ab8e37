"""Grammars: which tokens may come next, as automata over the tokens of a vocabulary.

A grammar makes a table [state, token] of next states for a vocabulary; −1 forbids the token. Row 0 is the state
in which a turn begins. The sampler follows the table on its device, so that a grammar costs no look at the text.
`Pattern` is a regular expression for the whole turn; `Routed` leaves the text free until a token of its own opens a
device, inside of which only the device's actions are allowed. A class with a `table` of its own, made by
a grammar library say, is equally a grammar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError
from podium.core.value import Value
from podium.protocols.pattern import CharacterAutomaton, compiled

__all__ = ["Grammar", "Pattern", "Routed", "Vocabulary", "json_pattern"]

Table = NDArray[np.int32]  # [state, token]


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model: the text of each, empty for special ones, and which of them end a turn."""

    texts: Sequence[str]
    size: int  # tokens that the model can write; those without a text stand at the end
    end_ids: tuple[int, ...]
    special: Mapping[str, int]  # ids of special tokens by name


class Grammar(Value):
    """Which tokens may come next."""

    def table(self, vocabulary: Vocabulary) -> Table:
        """[state, token] the next state; −1: the token is not allowed. Every state allows some token."""
        raise NotImplementedError


class Pattern(Grammar):
    """The whole turn matches a regular expression: `[0-9]+`, `(yes|no)`, `json_pattern(...)`."""

    pattern: str  # literals, \\ before a special character, [a-z] and [^a-z], ., |, *, +, ?, {2,5} and brackets

    def __post_init__(self) -> None:
        compiled(self.pattern)

    def table(self, vocabulary: Vocabulary) -> Table:
        return _lifted(compiled(self.pattern), vocabulary, repr(self))


class Routed(Grammar):
    """Free text in which a special token opens a device, and a regular expression tells what may be written in it.

    What a device accepts ends the turn. In free text all tokens are allowed.
    """

    devices: tuple[tuple[str, str], ...]  # names of special tokens, and the expression that follows each

    def __post_init__(self) -> None:
        for _, pattern in self.devices:
            compiled(pattern)

    def table(self, vocabulary: Vocabulary) -> Table:
        tables: list[Table] = [np.zeros((1, vocabulary.size), dtype=np.int32)]
        for token, pattern in self.devices:
            if token not in vocabulary.special:
                raise PodiumError(f"{token!r} opens a device, but the model has no special token of this name.")
            inside, begin = _lifted(compiled(pattern), vocabulary, f"the device of {token!r}"), sum(map(len, tables))
            tables[0][0, vocabulary.special[token]] = begin
            tables.append(np.where(inside < 0, inside, inside + begin).astype(np.int32))
        return np.concatenate(tables)


def _lifted(automaton: CharacterAutomaton, vocabulary: Vocabulary, name: str) -> Table:
    """The automaton over tokens: a token is allowed where all of its characters are."""
    longest = max(map(len, vocabulary.texts), default=0)
    kinds = np.full((len(vocabulary.texts), longest), -1)
    for token, text in enumerate(vocabulary.texts):
        kinds[token, : len(text)] = [automaton.kind(character) for character in text]
    lengths = np.array([len(text) for text in vocabulary.texts])
    dead = len(automaton.next)
    steps = np.concatenate([automaton.next, np.full((1, automaton.next.shape[1]), dead)])
    steps = np.where(steps < 0, dead, steps)
    table = np.full((dead, vocabulary.size), -1, dtype=np.int32)
    for state in range(dead):
        now = np.full(len(lengths), state)
        for place in range(longest):
            now = np.where(place < lengths, steps[now, kinds[:, place]], now)
        allowed = (now != dead) & (lengths > 0)
        table[state, : len(now)] = np.where(allowed, now, -1)
        if automaton.accepting[state]:
            table[state, list(vocabulary.end_ids)] = state
    return _without_dead_ends(table, name)


def _without_dead_ends(table: Table, name: str) -> Table:
    """The table without transitions to states from which no end can be reached by the tokens there are."""
    alive = np.zeros(len(table) + 1, dtype=bool)  # the last one stands for −1
    own = np.arange(len(table))[:, None]
    alive[:-1] = ((table == own) & (table >= 0)).any(1)  # a state that a token does not leave, such as an end
    while True:
        reached = alive[table].any(1)
        if bool((reached == alive[:-1]).all()):
            break
        alive[:-1] = reached
    if not alive[0]:
        raise PodiumError(f"No text in the model's tokens matches {name}: change the expression.")
    return np.where(alive[table], table, -1).astype(np.int32)


STRING = r'"[^"\\\n]*"'
NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"
KINDS = {"string": STRING, "number": NUMBER, "integer": r"-?(0|[1-9][0-9]*)", "boolean": "(true|false)"}


def json_pattern(tools: Mapping[str, Mapping[str, str]]) -> str:
    """The expression of a valid call in JSON of one of these tools, each with its arguments and their kinds (string,
    number, integer, boolean): `{"name": "look", "arguments": {"place": "hall"}}`."""
    calls = []
    for tool, arguments in tools.items():
        for kind in arguments.values():
            if kind not in KINDS:
                raise PodiumError(f"An argument of {tool!r} is of kind {kind!r}: take one of {', '.join(KINDS)}.")
        inside = ", ".join(f'"{name}": {KINDS[kind]}' for name, kind in arguments.items())
        calls.append(rf'\{{"name": "{tool}", "arguments": \{{{inside}\}}\}}')
    return f"({'|'.join(calls)})"
