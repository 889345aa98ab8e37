"""Actions beyond language: tokens of the model that stand for calls of a tool, and mean nothing as text."""

from __future__ import annotations

from collections.abc import Mapping

from podium.core.errors import PodiumError
from podium.protocols.format import Format, ReadTurn

__all__ = ["ToolActions"]


class ToolActions(Format):
    """A tool is called by a token of its own, and by nothing that is written as text.

    `<|reserved_28|> 12*34` is read as the action `calc: 12*34` if the token stands for `calc:`. A line that begins with
    that word in letters is no action, and the turn is not well-formed. A run begins with the token's row of the
    embedding and of the head at the mean of the rows of its word's tokens.
    """

    words: tuple[tuple[str, str], ...] = ()  # names of special tokens, and the word that the action of each begins with

    def __post_init__(self) -> None:
        for token, word in self.words:
            if not token or not word.strip():
                raise PodiumError(f"ToolActions.words has {token!r}: {word!r}. Give a token and a word for each tool.")

    @property
    def spelled(self) -> Mapping[str, str]:
        return dict(self.words)

    def read(self, text: str) -> ReadTurn:
        called = {text.rfind(token): (token, word) for token, word in self.words if token in text}
        if called:
            token, word = called[max(called)]
            return ReadTurn(f"{word}{text.rpartition(token)[2]}", form=token)
        lines = [line.lstrip().casefold() for line in text.splitlines()]
        if any(line.startswith(word) for line in lines for _, word in self.words):
            return ReadTurn("", well_formed=False)
        return ReadTurn(text)
