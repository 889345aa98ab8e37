"""Reading the final answer in a text: after the last `answer:`, or in the other forms that models use."""

from __future__ import annotations

import re
import string
from collections import Counter, deque

__all__ = [
    "ANSWER_MARK",
    "answer_place",
    "bare_answer",
    "boxed",
    "enclosed",
    "final_answer",
    "plain",
    "stated_answer",
    "word_f1",
]

ANSWER_MARK = "answer:"
LONGEST, LONGEST_BLOCK = 1_000, 20_000  # characters of an answer that are read: of one line, of several
OPEN, CLOSE = "<answer>", "</answer>"
WORDS, ARTICLES = re.compile(r"\w+"), re.compile(r"\b(?:a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)
WORD = re.compile(r"\banswer\b", re.IGNORECASE)
STATED = re.compile(r"[^.=:]*?(?:\bis\b:?|:)", re.IGNORECASE)  # what follows it in "The final answer to it is"


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
    rest = last[-LONGEST:]
    word = deque(WORD.finditer(rest), maxlen=1)  # the last one
    phrase = STATED.match(rest, word[0].end()) if word else None
    rest = rest[phrase.end() :] if phrase else rest
    return rest.rpartition("=")[2].strip("*`$ \t\r").removesuffix(".").strip("*`$ \t")


def enclosed(text: str, opening: str, closing: str) -> tuple[int, int] | None:
    """Where the text is between the first `opening` and the `closing` after it; None if one of them is missing.

    Unlike a regular expression with `.*?`, it takes linear time on a text of openings alone.
    """
    mark = text.find(opening)
    start = mark + len(opening)
    end = text.find(closing, start) if mark >= 0 else -1
    return None if end < 0 else (start, end)


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


def bare_answer(text: str) -> str:
    """Text in the form of SQuAD's exact match: lower case, without punctuation, articles and repeated spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def word_f1(answer: str, reference: str) -> float:
    """The F1 score of the words of two texts, each counted as often as it occurs, ignoring case, punctuation and
    articles."""
    words, expected = (Counter(WORDS.findall(ARTICLES.sub(" ", text.casefold()))) for text in (answer, reference))
    shared = (words & expected).total()
    return 2 * shared / (words.total() + expected.total()) if shared else 0.0
