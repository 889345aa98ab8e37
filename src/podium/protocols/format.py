"""Formats: how the model is asked to write its turns, how they are read, and how a demonstration is written in them.

A strategy's `Draw` holds a format. The driver puts its instruction below the task, hands the world the action that it
reads in each turn, and writes the world's demonstrations in it, in training and in evaluation alike.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from podium.core.value import Value
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.context import History
from podium.protocols.pieces import joined
from podium.protocols.world import Episode, World

__all__ = ["Demonstrated", "Format", "ReadTurn", "known_words", "milestones", "turn_limit"]


@dataclass(frozen=True)
class ReadTurn:
    """What a format finds in the text of a turn."""

    action: str  # what the world gets
    well_formed: bool = True  # whether the text has the format
    form: str = ""  # the kind of action, for formats that have several: the name of its tag


@dataclass(frozen=True)
class Demonstrated:
    """A turn of a demonstration that is to be written in a format."""

    actions: tuple[str, ...]  # of the whole demonstration, as the world would have them
    number: int  # of the turn
    history: History  # what its writer has seen so far
    only_shown: int = 0  # turns at the beginning that later turns see, but nobody is to imitate

    @property
    def imitated(self) -> bool:
        return self.number >= self.only_shown

    @property
    def action(self) -> str:
        return self.actions[self.number]

    @property
    def first_of_stretch(self) -> int:
        """The first turn of the stretch of actions that this one belongs to: they lead to one milestone."""
        return max((n + 1 for n in self.milestones if n < self.number), default=0)

    @property
    def milestones(self) -> list[int]:
        """The numbers of the turns that complete something, and of those that are only shown."""
        shown = self.only_shown
        return [*range(shown), *(shown + n for n in milestones(self.actions[shown:]))]

    @property
    def subgoal(self) -> str:
        """The milestone of the stretch, in the words that were known when the stretch began."""
        first = self.first_of_stretch
        end = next(n for n in self.milestones if n >= first)
        return known_words(self.actions[end], self.history, first)


def milestones(actions: Sequence[str]) -> list[int]:
    """The numbers of the actions that complete something: those whose verb is not the most frequent one, and the last.

    The most frequent verb of a demonstration is how one moves in its world, from milestone to milestone.
    """
    verbs = [action.split(maxsplit=1)[0] if action.split() else "" for action in actions]
    ((usual, _),) = Counter(verbs).most_common(1)
    return [n for n, verb in enumerate(verbs) if verb != usual or n + 1 == len(verbs)]


def known_words(action: str, history: History, turns: int) -> str:
    """The words of an action that had been shown by the first `turns` turns, and its first word in any case."""
    shown = " ".join([str(history.prompt), *(str(x.observation) for x in history.exchanges[:turns])])
    seen = {word.strip(".,:;") for word in shown.split()}
    verb, *words = action.split() or [""]
    return " ".join([verb, *(word for word in words if word.strip(".,:;") in seen)]).rstrip(":")


class Format(Value):
    """The plain format: the whole text is the action. Subclasses read and write something else."""

    # Columns that are written where a strategy has a format.
    provides: ClassVar[tuple[str, ...]] = ("turn.well_formed", "turn.form", "rollout.well_formed")

    ask: str = ""  # the instruction below the task
    tokens: int = 0  # added to the world's usual limit of a turn: what the format costs beside the action

    @property
    def spelled(self) -> Mapping[str, str]:
        """Special tokens whose names stand in the texts that it reads, each with the word that describes it."""
        return {}

    @property
    def opening(self) -> str:
        """The words after which the answer to a task stands."""
        return ANSWER_MARK

    def asked(self, history: History) -> History:
        """What the model sees of an episode, with the instruction below the task."""
        if not self.ask:
            return history
        return dataclasses.replace(history, prompt=joined("\n", (history.prompt, self.ask)))

    def wrap(self, episode: Episode) -> Episode:
        """The episode as the model plays it, for formats with turns of their own."""
        return episode

    def read(self, text: str) -> ReadTurn:
        """The action in the text of a turn. In a text that does not have the format, the whole text is the action."""
        return ReadTurn(text)

    def script(self, actions: tuple[str, ...], number: int) -> tuple[tuple[str, ...], int]:
        """The turns of a demonstration, given the world's actions, and how many of the first ones are only shown, not
        imitated. `number` is that of the group in the run, for formats that demonstrate in several ways."""
        return actions, 0

    def write(self, turn: Demonstrated) -> str:
        """The text of a turn of a demonstration."""
        return turn.action


def turn_limit(world: World, format: Format | None) -> int:
    """How many tokens a turn may have, unless the run says otherwise: what the world and the format need."""
    return world.max_tokens + (0 if format is None else format.tokens)
