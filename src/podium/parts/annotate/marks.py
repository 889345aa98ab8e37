"""Marks: boolean columns of tokens, found by matching phrases or patterns in the text of a turn.

Text is never tokenised again: `token.end` says where in its turn's text each token ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Annotate, Columns, Need

__all__ = ["MarkPattern", "MarkPhrases", "in_grams", "masked_words", "overlapping", "phrase_spans", "words_of"]

Span = tuple[int, int]  # first and last character in a turn's text, the last one exclusive
WORD = re.compile(r"[\w']+")
NUMBER = "0"  # what stands for every number in a phrase that was mined


def in_grams(sequence: Sequence[Any], grams: Iterable[Sequence[Any]]) -> list[bool]:
    """Which elements of a sequence belong to an occurrence of one of the n-grams."""
    by_first: dict[Any, list[tuple[Any, ...]]] = {}
    for gram in grams:
        if gram:
            by_first.setdefault(gram[0], []).append(tuple(gram))
    marked = [False] * len(sequence)
    if by_first.keys().isdisjoint(sequence):
        return marked
    for start in [place for place, first in enumerate(sequence) if first in by_first]:
        for gram in by_first[sequence[start]]:
            if tuple(sequence[start : start + len(gram)]) == gram:
                marked[start : start + len(gram)] = [True] * len(gram)
    return marked


def words_of(texts: Iterable[str]) -> list[list[str]]:
    """The words of each text in lower case."""
    return [WORD.findall(text.lower()) for text in texts]


def masked_words(text: str) -> list[str]:
    """The words of a text in lower case, with all numbers alike."""
    return [NUMBER if word[0].isdigit() else word for word in WORD.findall(text.lower())]


def phrase_spans(text: str, phrases: Iterable[Sequence[str]], masked: bool = False) -> Iterator[Span]:
    """The spans of the words of a text that belong to one of the phrases, ignoring case; numbers too, if `masked`."""
    marked = in_grams(masked_words(text) if masked else WORD.findall(text.lower()), phrases)
    places = WORD.finditer(text.lower()) if any(marked) else ()
    return (word.span() for word, inside in zip(places, marked, strict=False) if inside)


def overlapping(batch: Batch, find: Callable[[str], Iterable[Span]]) -> Tensor:
    """[token] Whether the token shares a character with a span that `find` returns for its turn's text."""
    end = batch["token.end"].long()
    begin = batch.shift(end, "token", "turn", by=1)
    # All texts stand in one row. `before` counts the marked characters up to each: a token between whose ends the
    # count grows holds a marked character.
    texts: tuple[str, ...] = batch["turn.text"]
    offset = torch.tensor([0, *(len(t) + 1 for t in texts)], device=end.device).cumsum(0)
    size = int(offset[-1]) + 1
    places = zip(offset.tolist(), texts, strict=False)
    spans = [(first + low, first + high) for first, text in places for low, high in find(text)]
    low, high = torch.tensor(spans, dtype=torch.long, device=end.device).reshape(-1, 2).clamp(max=size).T
    edges = torch.zeros(size + 1, dtype=torch.long, device=end.device)
    edges = edges.index_add(0, low, torch.ones_like(low)).index_add(0, high, -torch.ones_like(high))
    before = torch.cat([edges.new_zeros(1), (edges.cumsum(0)[:size] > 0).long().cumsum(0)])
    start = offset[:-1].index_select(0, batch.link("token", "turn"))
    last = len(before) - 1
    return before[(start + end).clamp(max=last)] > before[(start + begin).clamp(max=last)]


class MarkPattern(Annotate):
    """Marks the model's tokens that overlap a match of a regular expression in the turn's text."""

    pattern: str = "</think>"  # a regular expression
    into: str = "token.end_of_thinking"  # the boolean column to write

    needs = ("turn.text", "token.end")

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise PodiumError(f"MarkPattern.pattern = {self.pattern!r} cannot be read: {error}.") from error

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.into,)

    def __call__(self, batch: Batch) -> Columns:
        matched = overlapping(batch, lambda text: (match.span() for match in re.finditer(self.pattern, text)))
        return {self.into: matched & batch.action}


class MarkPhrases(Annotate):
    """Marks the model's tokens that belong to one of the phrases, compared word by word and ignoring case.

    With `mined`, also those of the phrases that `PlanningPhrases` has found so far, in which all numbers are alike.
    """

    reference = "HICRA, https://github.com/TIGER-AI-Lab/Hierarchical-Reasoner"
    phrases: tuple[str, ...] = ()
    into: str = "token.planning"  # the boolean column to write
    mined: bool = False

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("turn.text", "token.end", *(("batch.phrases",) if self.mined else ()))

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.into,)

    def __call__(self, batch: Batch) -> Columns:
        grams = words_of(self.phrases)
        mined = [phrase.split() for phrase in batch["batch.phrases"][0]] if self.mined else []

        def find(text: str) -> Iterator[Span]:
            yield from phrase_spans(text, grams)
            yield from phrase_spans(text, mined, masked=True)

        return {self.into: overlapping(batch, find) & batch.action}
