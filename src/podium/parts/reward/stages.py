"""Progressive reward shaping: a later stage pays only where the earlier ones are met."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["AnswerBleu", "ProgressiveReward", "length_aware_bleu"]


def length_aware_bleu(prediction: Sequence[str], reference: Sequence[str], longest: int = 4) -> float:
    """BLEU with n-grams only up to the length of the shorter text: plain BLEU-4 is 0 for answers of under four words.

    The geometric mean of the clipped n-gram precisions, n ≤ `longest`, times the brevity penalty.
    """
    orders = min(longest, len(prediction), len(reference))
    if orders == 0:
        return 0.0
    logs = 0.0
    for n in range(1, orders + 1):
        predicted, expected = _grams(prediction, n), _grams(reference, n)
        shared = sum((predicted & expected).values())
        if shared == 0:
            return 0.0
        logs += math.log(shared / sum(predicted.values()))
    brevity = min(0.0, 1 - len(reference) / len(prediction))
    return math.exp(logs / orders + brevity)


def _grams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


class AnswerBleu(Reward):
    """The quality of a short answer: the length-aware BLEU between its words and those of the reference answer.

    It takes the place of the world's verdict as `rollout.reward`. A rollout without an answer gets 0.
    """

    reference = "Progressive Reward Shaping, Value-based Sampling Policy Optimization"
    longest: int = 4  # words of an n-gram, ≥ 1
    answer: str = "rollout.answer"  # a column of texts
    expected: str = "rollout.reference_answer"  # a column of texts

    provides = ("rollout.reward", "rollout.reward.bleu")

    def __post_init__(self) -> None:
        within(self, "longest", 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.answer, self.expected)

    def __call__(self, batch: Batch) -> Columns:
        pairs = zip(batch[self.answer], batch[self.expected], strict=True)
        scores = [length_aware_bleu(said.split(), wanted.split(), self.longest) for said, wanted in pairs]
        bleu = torch.tensor(scores, dtype=batch.dtype, device=batch.device)
        return {"rollout.reward": bleu, "rollout.reward.bleu": bleu}


class ProgressiveReward(Reward):
    """Progressive reward shaping: 0 if the tool calls do not parse, w1 if the format is wrong, else w1 + w2 + w3 · q.

    Fixing the format never lowers the reward, and quality earns nothing without it.
    """

    reference = "Progressive Reward Shaping, Value-based Sampling Policy Optimization"
    parse: Number = 0.1  # w1, ≥ 0
    format: Number = 0.1  # w2, ≥ 0
    quality: Number = 0.8  # w3, ≥ 0
    parsed: str = "rollout.parsed"  # a column of rollouts, above 0 where the calls parse
    formatted: str = "rollout.formatted"  # a column of rollouts, above 0 where the format is right
    score: str = "rollout.reward"  # q, in [0, 1]

    provides = ("rollout.reward", "rollout.quality")

    def __post_init__(self) -> None:
        for name in ("parse", "format", "quality"):
            within(self, name, 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.parsed, self.formatted, self.score)

    def __call__(self, batch: Batch) -> Columns:
        q = batch[self.score].to(batch.dtype)
        well_formed = (batch[self.formatted] > 0).to(q.dtype)
        reward = self.parse + well_formed * (self.format + self.quality * q)
        return {"rollout.reward": reward.where(batch[self.parsed] > 0, 0), "rollout.quality": q}
