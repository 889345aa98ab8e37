"""Marks: tokens found by what the rollout's text says there.

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
from podium.core.part import Annotate, Columns

__all__ = ["MarkPattern", "MarkPhrases", "in_grams", "overlapping", "where_said", "words_of"]

Span = tuple[int, int]  # characters of a turn's text, the second one not included
WORD = re.compile(r"[\w']+")


def in_grams(sequence: Sequence[Any], grams: Iterable[Sequence[Any]]) -> list[bool]:
    """Which elements of a sequence lie in any of the n-grams, where they stand in it one after another."""
    beginning: dict[Any, list[tuple[Any, ...]]] = {}
    for gram in grams:
        if gram:
            beginning.setdefault(gram[0], []).append(tuple(gram))
    marked = [False] * len(sequence)
    if beginning.keys().isdisjoint(sequence):
        return marked
    for start in [place for place, first in enumerate(sequence) if first in beginning]:
        for gram in beginning[sequence[start]]:
            if tuple(sequence[start : start + len(gram)]) == gram:
                marked[start : start + len(gram)] = [True] * len(gram)
    return marked


def words_of(texts: Iterable[str]) -> list[list[str]]:
    """The words of each text, without case."""
    return [WORD.findall(text.lower()) for text in texts]


def where_said(text: str, phrases: Iterable[Sequence[str]]) -> Iterator[Span]:
    """Where the words of the phrases stand in a text, compared without case."""
    marked = in_grams(WORD.findall(text.lower()), phrases)
    places = WORD.finditer(text.lower()) if any(marked) else ()
    return (word.span() for word, inside in zip(places, marked, strict=False) if inside)


def overlapping(batch: Batch, find: Callable[[str], Iterable[Span]]) -> Tensor:
    """[token] whether the token shares a character with a span that `find` sees in its turn's text."""
    end = batch["token.end"].long()
    begin = batch.shift(end, "token", "turn", by=1)
    # A running count of marked characters for each turn, one after another: a token is marked if it grows inside it.
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
    """`into` is True at the model's tokens that overlap a match of a regular expression in the turn's text."""

    pattern: str = "</think>"
    into: str = "token.end_of_thinking"

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
        found = overlapping(batch, lambda text: (match.span() for match in re.finditer(self.pattern, text)))
        return {self.into: found & batch.action}


class MarkPhrases(Annotate):
    """`into` is True at the model's tokens that belong to one of the phrases, compared word by word without case."""

    reference = "HICRA, https://github.com/TIGER-AI-Lab/Hierarchical-Reasoner"
    phrases: tuple[str, ...] = ()
    into: str = "token.planning"

    needs = ("turn.text", "token.end")

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.into,)

    def __call__(self, batch: Batch) -> Columns:
        grams = words_of(self.phrases)
        return {self.into: overlapping(batch, lambda text: where_said(text, grams)) & batch.action}
