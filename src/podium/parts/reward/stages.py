"""Rewards in stages: what is asked for later pays only where what is asked for first is there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["ProgressiveReward", "length_aware_bleu"]


def length_aware_bleu(prediction: Sequence[str], reference: Sequence[str], longest: int = 4) -> float:
    """The geometric mean of clipped n-gram precisions up to the shorter text's length, times the brevity penalty.

    Plain BLEU-4 is 0 for every answer of fewer than four words.
    """
    most = min(longest, len(prediction), len(reference))
    if most == 0:
        return 0.0
    logs = 0.0
    for n in range(1, most + 1):
        said, wanted = _grams(prediction, n), _grams(reference, n)
        shared = sum((said & wanted).values())
        if shared == 0:
            return 0.0
        logs += math.log(shared / sum(said.values()))
    brevity = min(0.0, 1 - len(reference) / len(prediction))
    return math.exp(logs / most + brevity)


def _grams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


class ProgressiveReward(Reward):
    """0 where tool calls do not parse; w1 where the format is wrong; else w1 + w2 + w3 · q.

    So a mended format never lowers the reward, and text without it cannot collect what quality pays.
    """

    reference = "Progressive Reward Shaping, Value-based Sampling Policy Optimization"
    parse: Number = 0.1  # w1
    format: Number = 0.1  # w2
    quality: Number = 0.8  # w3
    parsed: str = "rollout.parsed"  # a column of rollouts, above 0 where the calls parse
    formatted: str = "rollout.formatted"  # and above 0 where the format is as asked for
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
        paid = self.parse + well_formed * (self.format + self.quality * q)
        return {"rollout.reward": paid.where(batch[self.parsed] > 0, 0), "rollout.quality": q}
