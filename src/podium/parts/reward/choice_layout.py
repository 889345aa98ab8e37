"""Multiple choice with a written summary: the boxed letter, the layout, and the share of English characters."""

from __future__ import annotations

import re
from string import ascii_letters, ascii_uppercase, digits

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["ChoiceLayout", "boxed_choice", "english_share", "layout_score"]

BOX = re.compile(r"\\boxed\{(.*?)\}")
BETWEEN = re.compile(r"</think>\s*<answer>")
OPEN, CLOSE = "<think>", "</answer>"
ENGLISH = frozenset(ascii_letters + digits + ".,!?;:'\"()[]{}<>-_/\\|`~@#$%^&*+= \n")


def boxed_choice(text: str, gold: str) -> float:
    """1 if the one box holds the right letter, 0 if another capital letter, −0.5 if anything else, −1 if it is never
    closed; −m with any other number m of boxes."""
    boxes = text.count("\\boxed")
    if boxes != 1:
        return -float(boxes)
    box = BOX.search(text)
    if box is None:
        return -1.0
    choice = box.group(1)
    return float(choice == gold) if len(choice) == 1 and choice in ascii_uppercase else -0.5


def layout_score(text: str) -> float:
    """1 if the text is `<think>…</think><answer>…</answer>` and nothing else, and 0.5 more if the answer has exactly
    one box and something besides it; else 0."""
    middle = BETWEEN.search(text, len(OPEN))
    if not text.startswith(OPEN) or middle is None or not text[middle.end() :].endswith(CLOSE):
        return 0.0
    answer = text[middle.end() : -len(CLOSE)].strip()
    boxes = BOX.findall(answer)
    return 1.5 if len(boxes) == 1 and answer != f"\\boxed{{{boxes[0]}}}" else 1.0


def english_share(text: str) -> float:
    """The share of the characters that are ASCII letters, digits, listed punctuation, blanks or line breaks; 0 if there
    are none."""
    return sum(character in ENGLISH for character in text) / len(text) if text else 0.0


class ChoiceLayout(Reward):
    """Replaces the reward by accuracy · a + layout · f + english · e, read from the text.

    a: the boxed letter against the right one (`boxed_choice`), f: the layout with a written summary (`layout_score`),
    e: `english_share`. Closing tags with a backslash count as closed. layout = english = 0 is accuracy alone, except
    that every box beyond the first costs.
    """

    reference = "Clinical-R1, https://github.com/BoyangGu1/Clinical-R1-3B"
    accuracy: Number = 10.0
    layout: Number = 1.0
    english: Number = 0.5
    gold: str = "rollout.reference_answer"  # a column with the right letter
    of: str = "rollout.text"  # a column of texts

    provides = ("rollout.reward", "rollout.reward.accuracy", "rollout.reward.layout", "rollout.reward.english")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of, self.gold)

    def __call__(self, batch: Batch) -> Columns:
        texts = [_repaired(text) for text in batch[self.of]]
        read = (
            [boxed_choice(text, gold) for text, gold in zip(texts, batch[self.gold], strict=True)],
            [layout_score(text) for text in texts],
            [english_share(text) for text in texts],
        )
        weights = (self.accuracy, self.layout, self.english)
        terms = [
            weight * torch.tensor(values, dtype=batch.dtype, device=batch.device)
            for weight, values in zip(weights, read, strict=True)
        ]
        return dict(zip(self.provides, (terms[0] + terms[1] + terms[2], *terms), strict=True))


def _repaired(text: str) -> str:
    return text.strip().replace("<\\think>", "</think>").replace("<\\answer>", "</answer>")
