"""Text of unknown origin in a form that is safe to print: no character in it moves a cursor or reorders a line."""

from __future__ import annotations

import re

__all__ = ["error_text", "one_line", "printable"]

LONGEST = 300  # characters of a reason

# Control characters (C0 but tab and line break, DEL, C1), marks that change the direction of writing, other line
# breaks, and halves of characters, which no stream can write.
UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)


def printable(text: str) -> str:
    r"""The text with such characters written as in source code: an escape character becomes `\x1b`."""
    return UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """The text on one line, shortened if it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} …"


def error_text(error: BaseException) -> str:
    """The type and the message of an error, shortened. Other people's errors may fail to give their message."""
    name = type(error).__name__
    try:
        message = str(error)[:LONGEST]
    except BaseException:
        message = ""
    return printable(f"{name}: {message}" if message else name)
