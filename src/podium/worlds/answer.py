"""The answer in a text: what the last line `answer: …` says."""

from __future__ import annotations

import re

__all__ = ["MARK", "final_answer", "plain"]

MARK = "answer:"
LONGEST, LONGEST_BLOCK = 1_000, 20_000  # characters of an answer, of a line or of several, that are looked at


def final_answer(text: str, *, lines: bool = False) -> str | None:
    """What follows the last line that begins with `answer:`, to the end of that line, or of the text if `lines`.

    None without such a line. Markdown around the word (`**Answer:** 42`) is passed over.
    """
    rows = text.splitlines()
    for i in range(len(rows) - 1, -1, -1):
        head = rows[i].lstrip(" \t*#>`")
        if head[: len(MARK)].casefold() == MARK:
            rest = head[len(MARK) :]
            if lines:
                return "\n".join([rest, *rows[i + 1 :]]).strip("*` \t\n")[:LONGEST_BLOCK]
            return rest.strip("*` \t")[:LONGEST]
    return None


def plain(text: str) -> str:
    """Text as it is compared: one space between words, lower case, no full stop at the end."""
    return re.sub(r"\s+", " ", text).strip().removesuffix(".").casefold()
