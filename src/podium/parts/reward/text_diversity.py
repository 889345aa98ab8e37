"""Surface diversity of a text as a reward: eight scores of its words and sentences."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain, pairwise
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["FUNCTION_WORDS", "TextDiversity", "diversity_scores", "sentences_of", "yule_k"]

FUNCTION_WORDS = (
    *("a", "an", "the", "and", "or", "but", "if", "so", "of", "to", "in", "on", "at", "by", "for", "with", "from"),
    *("as", "is", "are", "was", "were", "be", "it", "this", "that", "not", "no", "i", "you", "he", "she", "we", "they"),
)
SENTENCE = re.compile(r"[^.!?\n]*[.!?\n]?")
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
KINDS = {"?": "interrogative", "!": "exclamatory"}


def sentences_of(text: str) -> tuple[list[list[str]], list[str]]:
    """The words of each sentence, and its kind by the mark at its end: interrogative, exclamatory, else declarative.

    A sentence ends with `.`, `!`, `?` or the line.
    """
    words, kinds = [], []
    for sentence in SENTENCE.findall(text):
        found = WORD.findall(sentence.casefold())
        if found:
            words.append(found)
            kinds.append(KINDS.get(sentence[-1], "declarative"))
    return words, kinds


def yule_k(words: Sequence[str]) -> float:
    """Yule's K = 10⁴ · (Σ_r r² V_r − N) / N², V_r the number of words that occur r times; 0 without words."""
    if not words:
        return 0.0
    return 1e4 * (sum(count**2 for count in Counter(words).values()) - len(words)) / len(words) ** 2


def diversity_scores(
    sentences: Sequence[Sequence[str]],
    kinds: Sequence[str],
    function_words: Collection[str] = FUNCTION_WORDS,
    yule_scale: float = 100.0,
) -> dict[str, float]:
    """The eight scores of a text, each in [0, 1]; all 0 for a text without words.

    Different words / words; entropy of the words over its maximum; std / mean of the sentence lengths, at most 1;
    entropy of the three kinds of sentence over its maximum; mean of 1 − Jaccard similarity of neighbouring sentences;
    1 / (1 + K / yule_scale), K Yule's; different bigrams / bigrams; entropy of the function words over its maximum.
    """
    words = list(chain.from_iterable(sentences))
    if not words:
        return dict.fromkeys(SCORES, 0.0)
    lengths = [len(sentence) for sentence in sentences]
    mean = sum(lengths) / len(lengths)
    spread = math.sqrt(sum((length - mean) ** 2 for length in lengths) / len(lengths)) / mean
    neighbours = [1 - len(set(a) & set(b)) / len(set(a) | set(b)) for a, b in pairwise(sentences)]
    bigrams = list(pairwise(words))
    used = [word for word in words if word in function_words]
    scores = (
        len(set(words)) / len(words),
        _entropy(words, len(set(words))),
        min(spread, 1.0),
        _entropy(kinds, 3),
        sum(neighbours) / len(neighbours) if neighbours else 0.0,
        1 / (1 + yule_k(words) / yule_scale),
        len(set(bigrams)) / len(bigrams) if bigrams else 0.0,
        _entropy(used, len(function_words)),
    )
    return dict(zip(SCORES, scores, strict=True))


SCORES = (
    *("lexical", "entropy", "sentence_length", "sentence_pattern"),
    *("adjacent_sentence", "yule", "bigram", "function_word"),
)


def _entropy(values: Sequence[Any], kinds: int) -> float:
    """The entropy of the values, over ln of how many kinds there may be; 0 where there is one kind or no value."""
    if kinds < 2 or not values:
        return 0.0
    shares = [count / len(values) for count in Counter(values).values()]
    return -sum(share * math.log(share) for share in shares) / math.log(kinds)


class TextDiversity(Reward):
    """R = accuracy · r + diversity · D, D the mean of eight scores of the text (`diversity_scores`), r the reward.

    Where all rollouts of a group are right, or all are wrong, D alone decides. diversity = 0 is the plain reward up to
    its factor. Several scores fall with length, so the term shortens answers.
    """

    reference = "MultiRole-R1, https://arxiv.org/abs/2507.20187"
    accuracy: Number = 0.9
    diversity: Number = 0.1
    yule_scale: Number = 100.0  # > 0; 1: as the paper prints it, about 0.01 for ordinary text
    function_words: tuple[str, ...] = FUNCTION_WORDS
    of: str = "rollout.text"  # a column of texts

    provides = ("rollout.reward", "rollout.reward.diversity", "rollout.diversity")

    def __post_init__(self) -> None:
        within(self, "yule_scale", 0, open_low=True)
        if len(set(self.function_words)) < 2:
            raise PodiumError("TextDiversity.function_words needs two words or more: their entropy is a score.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.of)

    def score(self, text: str) -> float:
        """D of a text."""
        scores = diversity_scores(*sentences_of(text), self.function_words, float(self.yule_scale))
        return sum(scores.values()) / len(scores)

    def __call__(self, batch: Batch) -> Columns:
        scores = torch.tensor([self.score(text) for text in batch[self.of]], dtype=batch.dtype, device=batch.device)
        bonus = self.diversity * scores
        reward = self.accuracy * batch["rollout.reward"] + bonus
        return {"rollout.reward": reward, "rollout.reward.diversity": bonus, "rollout.diversity": scores}
