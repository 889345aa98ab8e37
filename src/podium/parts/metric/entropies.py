"""Entropy metrics: of tokens and of answers, where in a rollout, and over strategic phrases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Metric, Need
from podium.core.signal import Signal
from podium.parts.annotate.marks import in_grams, masked_words, words_of

__all__ = ["EntropyPair", "EntropyProfile", "SemanticEntropy", "shannon"]

SAMPLED = Signal("entropy", of="sampler")


def shannon(counts: Iterable[float]) -> float:
    """The Shannon entropy −Σ f ln f of the shares f of the counts, in nats; 0 without any."""
    present = [c for c in counts if c > 0]
    total = sum(present)
    return -sum(c / total * math.log(c / total) for c in present)


class EntropyPair(Metric):
    """Reports token entropy and answer entropy per task: the mean over tokens, and −Σ f ln f of the answer frequencies.

    Training can raise the first while the second falls: local uncertainty grows while the answers collapse.
    """

    reference = "The Invisible Leash, https://arxiv.org/abs/2507.14843"

    needs = (SAMPLED, "rollout.answer")
    provides = ("group.entropy.token", "group.entropy.answer")

    def __call__(self, batch: Batch) -> Columns:
        return {
            "group.entropy.token": batch.by("token", "group").agg.mean(batch[SAMPLED]),
            "group.entropy.answer": batch.by("rollout", "group").agg.entropy("rollout.answer"),
        }


class EntropyProfile(Metric):
    """Reports the mean token entropy of right and of wrong rollouts, and of the first and second half of all rollouts.

    NaN where there are no such tokens.
    """

    reference = "Decomposing the Entropy-Performance Exchange"

    needs = (SAMPLED, "rollout.correct", "rollout.length")
    provides = ("batch.profile.right", "batch.profile.wrong", "batch.profile.early", "batch.profile.late")

    def __call__(self, batch: Batch) -> Columns:
        right = batch.spread(batch["rollout.correct"].bool(), "rollout", "token")
        place = batch.scan(batch.action.to(batch.dtype), "token", "rollout", reverse=False)
        late = place > batch.spread(batch["rollout.length"], "rollout", "token") / 2
        cells = batch.by("token").agg
        profile = {}
        for name, where in zip(self.provides, (right, ~right, ~late, late), strict=True):
            mean = cells.mean(batch[SAMPLED], where)
            profile[name] = mean.where(cells.count(where) > 0, float("nan"))
        return profile


class SemanticEntropy(Metric):
    """Reports semantic entropy: −Σ f ln f of how often each strategic phrase is used in the batch.

    High where the policy tries many different strategies, 0 where it uses one or none.
    """

    reference = "HICRA, https://github.com/TIGER-AI-Lab/Hierarchical-Reasoner"
    phrases: tuple[str, ...] = ()  # compared word by word, ignoring case
    mined: bool = False  # whether the phrases of `PlanningPhrases` count as well

    provides = ("batch.entropy.semantic",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("turn.text", *(("batch.phrases",) if self.mined else ()))

    def __call__(self, batch: Batch) -> Columns:
        counted = batch.by("turn").where
        texts = [t for i, t in enumerate(batch["turn.text"]) if counted is None or bool(counted[i])]
        uses = _uses(words_of(texts), words_of(self.phrases))
        if self.mined:
            uses += _uses([masked_words(text) for text in texts], [p.split() for p in batch["batch.phrases"][0]])
        return {"batch.entropy.semantic": torch.tensor([shannon(uses)], dtype=batch.dtype, device=batch.device)}


def _uses(turns: Sequence[Sequence[str]], phrases: Sequence[Sequence[str]]) -> list[int]:
    """In how many turns each phrase is used."""
    known = [(words, set(words)) for words in turns]
    return [sum(vocabulary.issuperset(p) and any(in_grams(words, [p])) for words, vocabulary in known) for p in phrases]
