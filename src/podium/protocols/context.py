"""Contexts: what the model sees of an episode before each turn: all of it, the last turns, or a rebuilt summary.

A context turns a history into messages: texts of the world, and turns of the model, which are never re-encoded: their
tokens stay as they were sampled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from podium.core.errors import within
from podium.core.value import Value
from podium.protocols.pieces import joined

__all__ = [
    "Context",
    "Exchange",
    "Forget",
    "Full",
    "History",
    "Latest",
    "Message",
    "Rebuild",
    "Since",
    "Window",
    "Wrote",
]


@dataclass(frozen=True)
class Wrote:
    """A turn of the model as a message: its tokens, and whether the model ended the turn itself."""

    ids: tuple[int, ...]
    ended: bool = True


@dataclass(frozen=True)
class Exchange:
    """One turn: what the model wrote, and what the world answered."""

    wrote: Wrote
    text: str
    observation: str
    action: str = ""  # what the world got of the text


@dataclass(frozen=True)
class History:
    """An episode so far, as seen by one of its agents."""

    prompt: str  # its first observation
    exchanges: tuple[Exchange, ...] = ()
    recap: str = ""  # the world's summary of the episode so far


Message = str | Wrote  # of the world and of the model, in turn; the first and the last are the world's


class Context(Value):
    """Builds the messages that a turn is sampled after."""

    def __call__(self, history: History) -> Sequence[Message]:
        raise NotImplementedError


class Full(Context):
    """The whole episode: each context extends the one before."""

    def __call__(self, history: History) -> Sequence[Message]:
        return [history.prompt, *_messages(history.exchanges)]


class Window(Context):
    """The task and the last `turns` exchanges; earlier ones are dropped.

    The observation before the first remaining exchange stands below the task. With `most` nothing is dropped until
    there are more exchanges than that: until then each context extends the one before, so the prefix cache serves it.
    """

    turns: int = 1  # exchanges that are always shown
    most: int | None = None  # exchanges shown at most; None: `turns`

    def __post_init__(self) -> None:
        within(self, "turns", 0)
        within(self, "most", self.turns, optional=True)

    def __call__(self, history: History) -> Sequence[Message]:
        most = self.turns if self.most is None else self.most
        at_once = most - self.turns + 1  # exchanges that are dropped together
        dropped = -(-max(len(history.exchanges) - most, 0) // at_once) * at_once
        if not dropped:
            return Full()(history)
        opening = joined("\n", (history.prompt, history.exchanges[dropped - 1].observation))
        return [opening, *_messages(history.exchanges[dropped:])]


class Latest(Context):
    """The last observation alone, for worlds whose observations say everything that matters."""

    def __call__(self, history: History) -> Sequence[Message]:
        return [history.exchanges[-1].observation if history.exchanges else history.prompt]


class Since(Context):
    """The episode from the last observation on that begins with `opening`, for rounds that are told anew each time; all
    of it where none does."""

    opening: str

    def __call__(self, history: History) -> Sequence[Message]:
        messages = Full()(history)
        begun = [
            place for place, text in enumerate(messages) if isinstance(text, str) and text.startswith(self.opening)
        ]
        return messages[begun[-1] :] if begun else messages


class Forget(Context):
    """The whole episode, without the observations that the model rejected: those before a turn whose action is
    `verdict`, in whose place `instead` stands."""

    verdict: str = "judge: no"
    instead: str = "left out"

    def __call__(self, history: History) -> Sequence[Message]:
        after = [x.action.strip() == self.verdict for x in history.exchanges[1:]]
        shown = [
            dataclasses.replace(x, observation=self.instead) if rejected else x
            for x, rejected in zip(history.exchanges, [*after, False], strict=False)
        ]
        return [history.prompt, *_messages(shown)]


class Rebuild(Context):
    """One message, rebuilt each turn: the task, the world's recap, the model's notes and the last observation.

    With `notes="memo"` the notes are what the model last wrote between `<memo>` and `</memo>`. With `action` the last
    action stands above its observation.
    """

    notes: str = ""  # the name of the tag; empty: no notes
    action: bool = False  # whether the last action is shown

    def __call__(self, history: History) -> Sequence[Message]:
        last = history.exchanges[-1:]
        acted = [f"> {x.action}" for x in last if self.action and x.action]
        texts = [history.prompt, history.recap, self._latest_notes(history), *acted, *(x.observation for x in last)]
        return [joined("\n", (text for text in texts if text))]

    def _latest_notes(self, history: History) -> str:
        """The latest notes; a turn without notes keeps the earlier ones."""
        start, end = f"<{self.notes}>", f"</{self.notes}>"
        for exchange in reversed(history.exchanges if self.notes else ()):
            before, closing, _ = exchange.text.rpartition(end)
            if closing:
                return f"{start}{before.rpartition(start)[2].strip()}{end}"
        return ""


def _messages(exchanges: Sequence[Exchange]) -> list[Message]:
    return [message for x in exchanges for message in (x.wrote, x.observation)]
