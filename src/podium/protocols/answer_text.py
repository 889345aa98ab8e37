"""Reading the final answer in a text: after the last `answer:`, or in the other forms that models use."""

from __future__ import annotations

import re

__all__ = ["ANSWER_MARK", "answer_place", "boxed", "final_answer", "plain", "stated_answer"]

ANSWER_MARK = "answer:"
LONGEST, LONGEST_BLOCK = 1_000, 20_000  # characters of an answer that are read: of one line, of several
OPEN, CLOSE = "<answer>", "</answer>"
STATED = re.compile(r"\banswer\b[^.=:]*?(?:\bis\b:?|:)(?!.*\banswer\b)", re.IGNORECASE)  # "The final answer to it is"


def final_answer(text: str, *, lines: bool = False) -> str | None:
    """What follows the last line that begins with `answer:`, to the end of that line, or of the text if `lines`.

    None without such a line. Markdown around the word (`**Answer:** 42`) is ignored.
    """
    rows = text.splitlines()
    for i in range(len(rows) - 1, -1, -1):
        head = rows[i].lstrip(" \t*#>`")
        if head[: len(ANSWER_MARK)].casefold() == ANSWER_MARK:
            rest = head[len(ANSWER_MARK) :]
            if lines:
                return "\n".join([rest, *rows[i + 1 :]]).strip("*` \t\n")[:LONGEST_BLOCK]
            return rest.strip("*` \t")[:LONGEST]
    return None


def stated_answer(text: str, *, lines: bool = False) -> str | None:
    """The answer in any of the usual forms: after `answer:`, in `<answer>…</answer>`, in `\\boxed{…}`, or on the last
    line, there after "the answer is" and after the last equals sign. None if the text is empty.
    """
    marked = final_answer(text, lines=lines)
    if marked is not None:
        return marked
    end = text.rfind(CLOSE)
    start = text.rfind(OPEN, 0, max(end, 0))
    if start >= 0:
        return text[start + len(OPEN) : end].strip()[:LONGEST_BLOCK]
    inside = boxed(text)
    if inside is not None:
        return inside.strip()[:LONGEST]
    rows = text.split("\n") if text.strip() else []
    last = next((row for row in reversed(rows) if row.strip()), None)
    if last is None:
        return None
    phrase = STATED.search(last[-LONGEST:])
    rest = phrase.string[phrase.end() :] if phrase else last[-LONGEST:]
    return rest.rpartition("=")[2].strip("*`$ \t\r").removesuffix(".").strip("*`$ \t")


def boxed(text: str) -> str | None:
    """The content of the last \\boxed{…}; None without one."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for i in range(start + len("\\boxed"), len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[start + len("\\boxed{") : i]
    return None


def answer_place(text: str) -> int | None:
    """The position of the last line that begins with `answer:`, its line break included; None without one."""
    lines = text.splitlines(keepends=True)
    for i in range(len(lines) - 1, -1, -1):
        if lines[i].lstrip(" \t*#>`")[: len(ANSWER_MARK)].casefold() == ANSWER_MARK:
            return len("".join(lines[:i]).removesuffix("\n"))
    return None


def plain(text: str) -> str:
    """Text in the form in which answers are compared: single spaces, lower case, no final full stop."""
    return re.sub(r"\s+", " ", text).strip().removesuffix(".").casefold()
