"""Pieces: prompts and observations that contain tokens of the model or pictures, besides text; and prompts of several
messages.

A prompt or an observation is usually a `str`, which is data: whatever it contains, the model never reads it as one of
its control tokens. A world that needs control tokens gives them explicitly: `Pieces("Done.", ModelTokens("<|call|>"))`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Self

from podium.core.errors import PodiumError
from podium.store.pictures import picture_bytes

__all__ = ["Dialogue", "ModelTokens", "Picture", "Piece", "Pieces", "filled", "joined", "pieces_of"]


@dataclass(frozen=True, init=False, repr=False)
class ModelTokens:
    """Tokens of the model, by name or by id: `ModelTokens("<|call|>")`, `ModelTokens(151652, 151653)`."""

    tokens: tuple[str | int, ...]

    def __init__(self, *tokens: str | int) -> None:
        for token in tokens:
            name = isinstance(token, str) and token
            number = isinstance(token, int) and not isinstance(token, bool) and token >= 0
            if not (name or number):
                raise PodiumError(f"ModelTokens takes names and ids of tokens, not {token!r}.")
        object.__setattr__(self, "tokens", tokens)

    def __repr__(self) -> str:
        return f"ModelTokens({', '.join(map(repr, self.tokens))})"

    def __str__(self) -> str:
        return "".join(token if isinstance(token, str) else f"<token {token}>" for token in self.tokens)


@dataclass(frozen=True)
class Picture:
    """A picture, by its file or its bytes. A model that cannot see refuses it where it would be encoded."""

    path: str = ""
    data: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.data):
            raise PodiumError("A Picture has a path or the bytes of a file, and not both.")

    def read(self) -> bytes:
        """The bytes of its file."""
        return self.data or picture_bytes(self.path)

    def __str__(self) -> str:
        return f"<picture {self.path or hashlib.sha256(self.data).hexdigest()[:12]}>"


Piece = str | ModelTokens | Picture


class Pieces(str):
    """A text with tokens or pictures in it. As a `str` it is what people see.

    `+` with texts and other pieces keeps the pieces. Other operations, such as f-strings and `strip`, return the text
    that people see, which is data like any other text.
    """

    pieces: tuple[Piece, ...]  # neighbouring texts are one

    def __new__(cls, *pieces: Piece) -> Self:
        merged: list[Piece] = []
        for piece in (part for content in pieces for part in pieces_of(content)):
            if not isinstance(piece, (str, ModelTokens, Picture)):
                raise PodiumError(f"Pieces are texts, ModelTokens and Pictures, not {piece!r}.")
            if merged and isinstance(piece, str) and isinstance(merged[-1], str):
                merged[-1] += piece
            elif piece != "":
                merged.append(piece)
        text = super().__new__(cls, "".join(map(str, merged)))
        text.pieces = tuple(merged) or ("",)
        return text

    def __getnewargs__(self) -> tuple[Any, ...]:  # for copies and pickles
        return self.pieces

    def __add__(self, other: str) -> Pieces:
        return Pieces(self, other)

    def __radd__(self, other: str) -> Pieces:
        return Pieces(other, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.pieces == pieces_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.pieces[0] if len(self.pieces) == 1 else self.pieces)

    def __repr__(self) -> str:
        return f"Pieces({', '.join(map(repr, self.pieces))})"


class Dialogue(str):
    """A prompt of several messages, `(role, text)` each, the last of which the model answers. As a `str` it is what
    people see.

    A text that is added, such as a hint or a format to write in, becomes part of the last message.
    """

    messages: tuple[tuple[str, str], ...]

    def __new__(cls, *messages: tuple[str, str]) -> Self:
        shown = super().__new__(cls, "\n\n".join(f"[{role}]\n{text}" for role, text in messages))
        shown.messages = tuple((role, text) for role, text in messages)
        return shown

    def __getnewargs__(self) -> tuple[Any, ...]:  # for copies and pickles
        return self.messages

    def around(self, before: str = "", after: str = "") -> Dialogue:
        """The dialogue with texts before and after what its last message says."""
        *rest, (role, text) = self.messages
        return Dialogue(
            *rest, (role, Pieces(before, text, after) if isinstance(text, Pieces) else before + text + after)
        )

    def __add__(self, other: str) -> Dialogue:
        return self.around(after=other)

    def __radd__(self, other: str) -> Dialogue:
        return self.around(before=other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dialogue) and self.messages == other.messages

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.messages)

    def __repr__(self) -> str:
        return f"Dialogue({', '.join(map(repr, self.messages))})"


def pieces_of(content: Piece) -> tuple[Piece, ...]:
    """The pieces of a prompt or an observation: a plain text is one piece."""
    return content.pieces if isinstance(content, Pieces) else (content,)


def joined(separator: str, contents: Iterable[str]) -> str:
    """The texts with a separator between them, like `separator.join(contents)`, with the pieces kept."""
    texts = list(contents)
    place = next((n for n, text in enumerate(texts) if isinstance(text, Dialogue)), None)
    if place is not None:
        before = "".join(text + separator for text in texts[:place])
        after = "".join(separator + text for text in texts[place + 1 :])
        dialogue = texts[place]
        assert isinstance(dialogue, Dialogue)
        return dialogue.around(before, after)
    if not any(isinstance(text, Pieces) for text in texts):
        return separator.join(texts)
    return Pieces(*(part for number, text in enumerate(texts) for part in ((separator, text) if number else (text,))))


def filled(template: str, **fields: str) -> str:
    """The template with its fields filled in, like `template.format(**fields)`, with the pieces kept."""
    if not any(isinstance(text, Pieces) for text in fields.values()):
        return template.format(**fields)
    parts: list[str] = []
    for literal, name, _, _ in Formatter().parse(template):
        parts += [literal] if name is None else [literal, fields[name]]
    return Pieces(*parts)
