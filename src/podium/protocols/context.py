"""What the model sees of an episode before it acts: all of it, the last turns, or the state made anew each turn.

A context builder turns a history into messages: texts of the world, and turns of the model, whose tokens stay as they
were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podium.core.errors import within
from podium.core.value import Value

__all__ = ["Context", "Exchange", "Full", "History", "Message", "Rebuild", "Window", "Wrote"]


@dataclass(frozen=True)
class Wrote:
    """A turn of the model: its tokens, and whether it closed the turn itself."""

    ids: tuple[int, ...]
    ended: bool = True


@dataclass(frozen=True)
class Exchange:
    """What the model wrote in a turn, and what the world answered."""

    wrote: Wrote
    text: str
    observation: str


@dataclass(frozen=True)
class History:
    """An episode so far, as one of its agents has seen it."""

    prompt: str  # its first observation
    exchanges: tuple[Exchange, ...] = ()
    recap: str = ""  # what the world says of the episode to someone who joins now


Message = str | Wrote  # the world's and the model's take turns; the first and the last are the world's


class Context(Value):
    """Makes the messages that a turn is written after."""

    def __call__(self, history: History) -> Sequence[Message]:
        raise NotImplementedError


class Full(Context):
    """Everything: each context extends the one before."""

    def __call__(self, history: History) -> Sequence[Message]:
        return [history.prompt, *_told(history.exchanges)]


class Window(Context):
    """The task and the last `turns` exchanges; what was said before them is forgotten.

    The observation that the first of them answered stands below the task. With `most` nothing is forgotten until there
    are more exchanges than that: in between, each context extends the one before, which saves encoding it anew.
    """

    turns: int = 1
    most: int | None = None  # None: as many as `turns`

    def __post_init__(self) -> None:
        within(self, "turns", 0)
        within(self, "most", self.turns, optional=True)

    def __call__(self, history: History) -> Sequence[Message]:
        most = self.turns if self.most is None else self.most
        at_once = most - self.turns + 1  # exchanges that are forgotten together
        forgotten = -(-max(len(history.exchanges) - most, 0) // at_once) * at_once
        if not forgotten:
            return Full()(history)
        opening = f"{history.prompt}\n{history.exchanges[forgotten - 1].observation}"
        return [opening, *_told(history.exchanges[forgotten:])]


class Rebuild(Context):
    """One message, made anew each turn: the task, what is known so far, and the last observation.

    What is known is the world's recap of the episode, and what the model last wrote for itself between `<notes>` and
    `</notes>`, where `notes` names such a tag.
    """

    notes: str = ""

    def __call__(self, history: History) -> Sequence[Message]:
        last = [history.exchanges[-1].observation] if history.exchanges else []
        known = [history.prompt, history.recap, self._noted(history), *last]
        return ["\n".join(text for text in known if text)]

    def _noted(self, history: History) -> str:
        """The newest notes: a turn without any leaves the old ones."""
        start, end = f"<{self.notes}>", f"</{self.notes}>"
        for exchange in reversed(history.exchanges if self.notes else ()):
            before, found, _ = exchange.text.rpartition(end)
            if found:
                return f"{start}{before.rpartition(start)[2].strip()}{end}"
        return ""


def _told(exchanges: Sequence[Exchange]) -> list[Message]:
    return [message for x in exchanges for message in (x.wrote, x.observation)]
