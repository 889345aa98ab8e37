"""Degenerate text: truncated, repetitive or garbled answers, and text after the end."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns
from podium.protocols.answer_text import answer_place

__all__ = ["MarkDegenerate", "MarkTrailingText", "garbled", "repetitive", "trailing_text"]


SCRIPTS = 3  # a text with letters of this many scripts (Latin, Cyrillic, …) counts as garbled
# Unicode categories of characters that do not occur in text: control, unassigned, private use and surrogate.
STRAY_CATEGORIES = ("Cc", "Cn", "Co", "Cs")


def repetitive(tokens: Sequence[int], length: int = 10, times: int = 4) -> bool:
    """Whether some n-gram of `length` tokens occurs at least `times` times."""
    grams = Counter(tuple(tokens[i : i + length]) for i in range(len(tokens) - length + 1))
    return max(grams.values(), default=0) >= times


def garbled(text: str) -> bool:
    """Whether the text has replacement, control or unassigned characters, or letters of too many scripts."""
    if any(c == "\ufffd" or (c not in "\n\r\t" and unicodedata.category(c) in STRAY_CATEGORIES) for c in text):
        return True
    return len({unicodedata.name(c, "?").split()[0] for c in text if c.isalpha()}) >= SCRIPTS


def trailing_text(text: str) -> bool:
    """Whether anything but blanks follows the line of the answer; a text without an answer has no end to go beyond."""
    place = answer_place(text)
    return place is not None and len(text[place:].strip().splitlines()) > 1


class MarkDegenerate(Annotate):
    """Writes `rollout.degenerate`: whether an answer was truncated, repeats an n-gram too often, or is garbled."""

    reference = (
        "T1: Advancing Language Model Reasoning through RL and Inference Scaling, https://arxiv.org/abs/2501.11651"
    )
    length: int = 10  # tokens of the n-grams that are counted, ≥ 1
    times: int = 4  # an n-gram that occurs this often makes the answer repetitive, ≥ 2

    needs = ("rollout.text", "rollout.truncated", "token.id")
    provides = ("rollout.degenerate",)

    def __post_init__(self) -> None:
        within(self, "length", 1)
        within(self, "times", 2)

    def __call__(self, batch: Batch) -> Columns:
        tokens = batch.partition("token", "rollout")
        order = tokens.members(torch.arange(len(batch), device=batch.device))
        order = order[batch.action[order]]
        rows = batch["token.id"][order].split(tokens.agg.count(batch.action).tolist())
        answers = zip(batch["rollout.text"], rows, strict=True)
        bad = [repetitive(ids.tolist(), self.length, self.times) or garbled(text) for text, ids in answers]
        return {"rollout.degenerate": batch["rollout.truncated"] | torch.tensor(bad, device=batch.device)}


class MarkTrailingText(Annotate):
    """Writes `rollout.trailing_text`: whether an answer goes on after the line that gives it (`answer: …`)."""

    reference = "Rewarding the Unlikely, https://github.com/AndreHe02/rewarding-unlikely-release"

    needs = ("rollout.text",)
    provides = ("rollout.trailing_text",)

    def __call__(self, batch: Batch) -> Columns:
        marks = [trailing_text(str(text)) for text in batch["rollout.text"]]
        return {"rollout.trailing_text": torch.tensor(marks, dtype=torch.bool, device=batch.device)}
