"""Degenerate text: truncated, repetitive or garbled answers."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns

__all__ = ["MarkDegenerate", "garbled", "repetitive"]


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
