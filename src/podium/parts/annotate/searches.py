"""How often a rollout has searched, whether its answer is right, and whether it is well-formed."""

from __future__ import annotations

import re

import torch

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.protocols.answer_text import bare_answer

__all__ = ["CountSearches", "ReadSearchTags", "exact_match"]

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
NAMES = ("think", "search", "answer", "information")
SLIPS = [f"{left}{slash}{name}" for name in NAMES for slash in ("", "/") for left in "(["]
SLIPS += [f"{name}{right}" for name in NAMES for right in ")]"]


def exact_match(answer: str, reference: str) -> bool:
    """Whether two answers are the same without case, punctuation, articles and repeated spaces."""
    return bare_answer(answer) == bare_answer(reference)


class CountSearches(Annotate):
    """Writes `rollout.searches` from the turns that searched, `rollout.matched` (the world's verdict), and
    `rollout.formed`: the world understood every turn."""

    needs = ("turn.searched", "turn.valid", "rollout.correct")
    provides = ("rollout.searches", "rollout.matched", "rollout.formed")

    def __call__(self, batch: Batch) -> Columns:
        turns = batch.partition("turn", "rollout").agg
        return {
            "rollout.searches": turns.sum(batch["turn.searched"].to(batch.dtype)),
            "rollout.matched": batch["rollout.correct"].bool(),
            "rollout.formed": ~turns.any(~batch["turn.valid"].bool()),
        }


class ReadSearchTags(Annotate):
    """Writes the same columns from the text of a rollout in tags: `<search>`, and the last `<answer>…</answer>`.

    A text is malformed if it has no `<think>` and `</think>`, or the name of a tag in round or square brackets.
    """

    reference = "IKEA, https://github.com/hzy312/knowledge-r1"

    needs = ("rollout.text", "rollout.reference_answer")
    provides = CountSearches.provides

    def __call__(self, batch: Batch) -> Columns:
        texts: list[str] = list(batch["rollout.text"])
        answers = [ANSWER.findall(text)[-1:] for text in texts]
        references = batch["rollout.reference_answer"]
        matched = [bool(a) and exact_match(a[0], ref) for a, ref in zip(answers, references, strict=True)]
        thought = ["<think>" in text and "</think>" in text for text in texts]
        formed = [ok and not any(s in text for s in SLIPS) for ok, text in zip(thought, texts, strict=True)]

        def flags(values: list[bool]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.bool, device=batch.device)

        searches = torch.tensor([text.count("<search>") for text in texts], dtype=batch.dtype, device=batch.device)
        return {
            "rollout.searches": searches,
            "rollout.matched": flags(matched),
            "rollout.formed": flags(formed),
        }
