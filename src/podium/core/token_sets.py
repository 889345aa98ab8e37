"""Sets of tokens: which ones a token was drawn from, where that is not the whole vocabulary.

A set is a text, so that it can be stored like any other value: a sign, then one character per token. After `+` stand
the tokens in it, after `-` the tokens that it lacks, whichever are fewer. The column `token.allowed` holds the code of
each token's set: 0 stands for the whole vocabulary, c for the c-th set in `rollout.allowed`, where each set of a
rollout stands once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError

__all__ = ["CODES", "SETS", "TokenSets", "listed_sets", "set_codes", "set_of", "token_sets"]

CODES, SETS = "token.allowed", "rollout.allowed"
SURROGATES = 0xD800, 0x800  # the first code point that is no character, and how many there are


def token_sets(mask: NDArray[np.bool_]) -> list[str]:
    """The texts of sets of tokens [n, V]."""
    ids = np.nonzero(mask)[1].astype(np.int32)
    ids, ends = np.nonzero(mask)[1].astype(np.int32), [0, *mask.sum(1).cumsum().tolist()]
    return [one or "+" for one in listed_sets(ids, ends, mask.shape[1])]


def listed_sets(ids: NDArray[np.int32], ends: Sequence[int], vocabulary: int) -> list[str]:
    """The texts of sets of tokens that stand one after another in `ids`, each in order; empty for a set of none.

    `ends` says where each set begins, and the last ends.
    """
    text, half = _characters(ids[: ends[-1]], vocabulary), vocabulary // 2
    sets = ["+" + text[a:b] if b > a else "" for a, b in pairwise(ends)]
    if len(text) > half:
        for row, (a, b) in enumerate(pairwise(ends)):
            if b - a > half:
                sets[row] = f"-{_characters(np.delete(np.arange(vocabulary), ids[a:b]), vocabulary)}"
    return sets


def set_of(ids: Iterable[int]) -> str:
    """The text of the set of these tokens."""
    listed = sorted(set(ids))
    return f"+{_characters(np.array(listed, dtype=np.int64), max(listed, default=0) + 1)}"


def _characters(ids: NDArray[np.integer[Any]], vocabulary: int) -> str:
    first, gap = SURROGATES
    points = ids if vocabulary <= first else np.where(ids < first, ids, ids + gap)
    return points.astype("<u4", copy=False).tobytes().decode("utf-32-le")


def set_codes(sets: Iterable[str | float | None]) -> tuple[list[int], tuple[str, ...]]:
    """The codes of sets and the different ones among them. Anything but a text stands for the whole vocabulary."""
    known: dict[str, int] = {}
    codes = [known.setdefault(one, len(known) + 1) if isinstance(one, str) else 0 for one in sets]
    return codes, tuple(known)


class TokenSets:
    """The sets of a batch on a device. A set's number is its place; 0 is the whole vocabulary."""

    def __init__(self, sets: Sequence[str], device: torch.device) -> None:
        points = np.frombuffer("".join(one[1:] for one in sets).encode("utf-32-le"), "<u4").astype(np.int64)
        first, gap = SURROGATES
        ends = np.cumsum([0, 0, *(len(one) - 1 for one in sets)])
        lacks = [True, *(one[0] == "-" for one in sets)]
        self.ids = torch.from_numpy(np.where(points < first, points, points - gap)).to(device)
        self.ends, self.lacks = torch.from_numpy(ends).to(device), torch.tensor(lacks, device=device)

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> tuple[TokenSets, Tensor]:
        """The sets of a batch, and the number of each token's set."""
        numbers: dict[str, int] = {}
        rows = [[0, *(numbers.setdefault(one, len(numbers) + 1) for one in sets)] for sets in batch[SETS]]
        starts = torch.tensor([0, *np.cumsum([len(row) for row in rows])[:-1].tolist()], device=batch.device)
        whole = torch.tensor([number for row in rows for number in row], device=batch.device)
        return cls(list(numbers), device), whole[starts[batch.link("token", "rollout")] + batch[CODES]].to(device)

    def mask(self, numbers: Tensor, vocabulary: int) -> Tensor:
        """[n, V] the tokens in each of these sets."""
        if len(self.ids) and int(self.ids.max()) >= vocabulary:
            raise PodiumError(
                f"A token was drawn from a set with token {int(self.ids.max())}, which this model, of "
                f"{vocabulary} tokens, does not know: its roles must share the policy's tokenizer."
            )
        first, lacks = self.ends[numbers], self.lacks[numbers]
        lengths = self.ends[numbers + 1] - first
        row = torch.arange(len(numbers), device=numbers.device).repeat_interleave(lengths)
        before = lengths.cumsum(0) - lengths
        at = torch.arange(len(row), device=numbers.device) + (first - before)[row]
        mask = lacks[:, None].repeat(1, vocabulary)
        mask[row, self.ids[at]] = ~lacks[row]
        return mask
