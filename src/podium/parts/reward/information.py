"""Information in answers to equivalent phrasings: much of it, and the same amount whatever the wording."""

from __future__ import annotations

import math
import re
from collections import Counter

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Need, Reward
from podium.core.partition import Partition
from podium.core.schedule import Number

__all__ = ["InformationReward", "PhrasingStability", "word_entropy"]

REFERENCE = "Information-Consistent Language Model Recommendations through GRPO"
WORD = re.compile(r"[^\W_]+")


def word_entropy(text: str) -> float:
    """H = −Σ p ln p over the words of a text, p their relative frequency; 0 for an empty text."""
    counts = Counter(WORD.findall(text.casefold()))
    total = counts.total()
    return -sum(count / total * math.log(count / total) for count in counts.values()) + 0.0 if total else 0.0


def _entropies(batch: Batch, column: str) -> Tensor:
    return torch.tensor([word_entropy(text) for text in batch[column]], dtype=batch.dtype, device=batch.device)


class InformationReward(Reward):
    """r ← task · r + weight · (H − H_min) / (H_max − H_min), H the entropy of the words of an answer.

    The smallest and the largest are those of the group; 0 where they are equal. task = 1 and weight = 0 is the plain
    reward. Alone it pays for long, varied answers whatever was asked.
    """

    reference = REFERENCE
    weight: Number = 0.5
    task: Number = 0.0  # weight of the reward so far
    of: str = "rollout.text"  # a column of texts: rollout.answer for what is recommended alone

    provides = ("rollout.reward", "rollout.reward.information", "rollout.information")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.of)

    def __call__(self, batch: Batch) -> Columns:
        entropy, groups = _entropies(batch, self.of), batch.by("rollout", "group")
        low, high = groups.min(entropy), groups.max(entropy)
        several = high > low
        share = ((entropy - low) / (high - low).where(several, 1)).where(several, 0).clamp(0, 1)
        bonus = self.weight * share
        reward = self.task * batch["rollout.reward"] + bonus
        return {"rollout.reward": reward, "rollout.reward.information": bonus, "rollout.information": entropy}


class PhrasingStability(Reward):
    """r ← r + weight · f, f = 1 − gap / largest gap of the group, the gap being |H_a − H_b| of a pair of phrasings.

    spread = "pair" gives each answer the f of its own pair; "group" gives all answers the mean over the pairs, as the
    published formula reads: a constant that a group's baseline removes. kind = "overlap" compares what the two answers
    say, by the Jaccard similarity of their words, not only how much. Where all gaps are 0, f = 1. With a single pair
    the largest gap is its own, so give a fixed one. Reads the pairs that `Phrased` makes.
    """

    reference = REFERENCE
    weight: Number = 0.5
    spread: str = "pair"  # pair or group
    kind: str = "entropy"  # entropy or overlap
    largest: float | None = None  # a fixed largest gap, in nats, > 0; None: that of the group
    of: str = "rollout.text"  # a column of texts

    provides = ("rollout.reward", "rollout.reward.stability", "rollout.phrasing_gap")

    def __post_init__(self) -> None:
        one_of(self, "spread", ("pair", "group"))
        one_of(self, "kind", ("entropy", "overlap"))
        within(self, "largest", 0, open_low=True, optional=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", "rollout.pair", self.of)

    @property
    def constant_within(self) -> str:
        return "group" if self.spread == "group" else ""

    def gap(self, batch: Batch, pairs: Partition) -> Tensor:
        """[rollout] The difference of the entropies of its pair."""
        entropy = _entropies(batch, self.of)
        return (pairs.max(entropy) - pairs.min(entropy)).where(pairs.count() > 0, 0)

    def overlap(self, batch: Batch, pairs: Partition) -> Tensor:
        """[rollout] The Jaccard similarity of the words of its pair; 1 where neither has any."""
        sets: dict[int, list[set[str]]] = {}
        enters = pairs.enters()
        for row, (cell, text) in enumerate(zip(pairs.index.tolist(), batch[self.of], strict=True)):
            if enters is None or bool(enters[row]):
                sets.setdefault(cell, []).append(set(WORD.findall(text.casefold())))
        shared = [
            len(set.intersection(*words)) / max(len(set.union(*words)), 1) if any(words) else 1.0
            for words in (sets.get(cell, []) for cell in range(pairs.cells))
        ]
        return pairs.spread(torch.tensor(shared, dtype=batch.dtype, device=batch.device))

    def __call__(self, batch: Batch) -> Columns:
        groups = batch.by("rollout", "group")
        pairs = groups.refine("rollout.pair")
        gap = self.gap(batch, pairs)
        if self.kind == "overlap":
            stability = self.overlap(batch, pairs)
        else:
            largest = groups.max(gap).clamp(min=0) if self.largest is None else torch.full_like(gap, self.largest)
            stability = (1 - gap / largest.where(largest > 0, 1)).clamp(min=0)
        if self.spread == "group":
            stability = groups.mean(stability)
        bonus = self.weight * stability
        return {
            "rollout.reward": batch["rollout.reward"] + bonus,
            "rollout.reward.stability": bonus,
            "rollout.phrasing_gap": gap,
        }
