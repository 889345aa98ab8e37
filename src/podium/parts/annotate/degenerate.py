"""Text that has gone wrong as text: cut off, repeating itself, or garbled."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns

__all__ = ["MarkDegenerate", "garbled", "repetitive"]


SCRIPTS = 3  # letters of so many alphabets are no text


STRAY = ("Cc", "Cn", "Co", "Cs")  # categories of characters that nobody writes


def repetitive(tokens: Sequence[int], length: int = 10, times: int = 4) -> bool:
    """Whether some sequence of so many tokens stands there so often or more."""
    grams = Counter(tuple(tokens[i : i + length]) for i in range(len(tokens) - length + 1))
    return max(grams.values(), default=0) >= times


def garbled(text: str) -> bool:
    """Whether the text has characters that nobody writes, or letters of too many scripts."""
    if any(c == "\ufffd" or (c not in "\n\r\t" and unicodedata.category(c) in STRAY) for c in text):
        return True
    return len({unicodedata.name(c, "?").split()[0] for c in text if c.isalpha()}) >= SCRIPTS


class MarkDegenerate(Annotate):
    """`rollout.degenerate`: whether an answer was cut off, repeats itself, or is garbled."""

    reference = (
        "T1: Advancing Language Model Reasoning through RL and Inference Scaling, https://arxiv.org/abs/2501.11651"
    )
    length: int = 10  # a sequence of so many tokens
    times: int = 4  # that often is a repetition

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
        said = zip(batch["rollout.text"], rows, strict=True)
        wrong = [repetitive(ids.tolist(), self.length, self.times) or garbled(text) for text, ids in said]
        return {"rollout.degenerate": batch["rollout.truncated"] | torch.tensor(wrong, device=batch.device)}
