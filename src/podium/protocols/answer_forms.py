"""Where a text states its answer: in a box, after `####` or `answer:`, between tags, or in a sentence.

The last statement counts. Without any, the reader of a number may fall back on the last number of the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from podium.protocols.answer_text import boxed

__all__ = ["LAST_NUMBER", "NUMBER", "Stated", "find_answer"]

LONGEST = 20_000  # characters of a text that are searched, its last ones
LONGEST_ANSWER = 300  # characters of an answer
LAST_NUMBER = "the last number"
NUMBER = re.compile(r"[-+−]?(?:\$ ?)?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-+−]?\.\d+")
HASHES = re.compile(r"####[ \t]*([^\n]+)")
LABEL = re.compile(
    r"(?:^|\n)[ \t>*#`_]*(?:the[ \t]+)?(?:final[ \t]+|correct[ \t]+)?answer[ \t*_`]*[:=][ \t*_`]*\n?([^\n]*)",
    re.IGNORECASE,
)
SENTENCE = re.compile(
    r"\b(?:answer|result|total|solution)(?:[ \t]+(?:to|of|for|here)\b[^.\n:=]{0,80})?[ \t*_`]{0,8}"
    r"(?:is|are|was|would be|will be|must be|should be|equals|comes to|=|:)"
    r"[ \t]{0,8}(not\b)?[: \t]{0,8}(?=([^\n]{0,600}))",
    re.IGNORECASE,
)
CHOICE = re.compile(
    r"\b(?:option|choice)[ \t]+\(?([A-J])\b\)?[^\n.]{0,60}?\bis (?:the )?(?:correct|right)|"
    r"\bcorrect (?:option|choice) is[: \t]*\(?([A-J])\b",
    re.IGNORECASE,
)
OPEN, CLOSE = "<answer>", "</answer>"
THINK, THOUGHT = "<think>", "</think>"


class Stated(NamedTuple):
    """An answer as a text states it."""

    answer: str
    form: str  # in words: "in \\boxed{}"
    place: int = 0  # where its statement begins


def find_answer(text: str) -> Stated | str:
    """The last statement of an answer; or, in words, why there is none.

    What is thought between `<think>` tags does not count.
    """
    _, closing, after = text.rpartition(THOUGHT)
    if closing:
        text = after
    elif THINK in text:
        return "the thinking never ended"
    text = text[-LONGEST:]
    if not text.strip():
        return "the text is empty"
    found = [stated for stated in (*_marks(text), *_sentences(text)) if stated is not None]
    if not found:
        return "no answer is stated: neither \\boxed{}, ####, <answer>, `answer:` nor “the answer is”"
    last = max(found, key=lambda stated: stated.place)
    return Stated(_inner(last.answer), last.form, last.place)


def _marks(text: str) -> list[Stated | None]:
    """The last statement in each form that has a mark."""
    inside = boxed(text)
    box = None if inside is None else Stated(inside, "in \\boxed{}", text.rfind("\\boxed{"))
    if box is None and (short := _last(re.compile(r"\\boxed[ \t]+([^\s$.]+)"), text)):
        box = Stated(short[1], "in \\boxed", short.start())
    hashes = _last(HASHES, text)
    start = text.rfind(OPEN)
    end = text.find(CLOSE, start) if start >= 0 else -1
    tagged = None
    if start >= 0:
        content = text[start + len(OPEN) : end if end >= 0 else None]
        tagged = Stated(content, "between <answer> tags", start)
    label = _last(LABEL, text)
    return [
        box,
        None if hashes is None else Stated(hashes[1], "after ####", hashes.start()),
        tagged,
        None if label is None or not label[1].strip() else Stated(label[1], "after `answer:`", label.start(1)),
    ]


def _sentences(text: str) -> list[Stated | None]:
    sentence, choice = _last(SENTENCE, text), _last(CHOICE, text)
    said = None
    if sentence is not None and sentence[2].strip():
        denied = f"not {sentence[2]}" if sentence[1] else sentence[2]
        said = Stated(_sentence_end(denied), "in a sentence", sentence.start())
    return [said, None if choice is None else Stated(choice[1] or choice[2], "in a sentence", choice.start())]


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def _sentence_end(text: str) -> str:
    """The text up to the end of its first sentence: a full stop that no digit follows."""
    return re.split(r"(?<!\b[A-Za-z])[.!;](?=\s|$|[*_`\"')\]])", text, maxsplit=1)[0]


def _inner(answer: str) -> str:
    """The answer inside a statement: a box within tags, the sentence within a label."""
    for _ in range(3):
        inside = boxed(answer)
        hashes = _last(HASHES, answer)
        sentence = _last(SENTENCE, answer)
        if inside is not None:
            answer = inside
        elif hashes is not None:
            answer = hashes[1]
        elif sentence is not None and sentence[2].strip() and not sentence[1]:
            answer = _sentence_end(sentence[2])
        else:
            break
    return answer.strip().strip("*_`").strip()[:LONGEST_ANSWER]
