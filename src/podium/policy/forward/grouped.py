"""A prompt and its answers in one row: prefix sharing with a group's prompt encoded once.

`pack` finds shared prefixes by itself, at any depth. This module does the same for callers who hold queries, keys and
values in rows [prompt | answer 1 | answer 2 | …], to study the layout or to use it in a model of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.cuda.attention import attention
from podium.policy.forward.trie_levels import Segment, TrieLevels

__all__ = ["grouped_attention", "grouped_positions", "tokens_grouped", "tokens_plain"]

Lengths = Sequence[int]  # of the prompt, then of each answer


def grouped_attention(
    q: Tensor, k: Tensor, v: Tensor, rows: Sequence[Lengths], heads: int = 1, scale: float | None = None
) -> Tensor:
    """Attention [rows, tokens, D] in which an answer attends to its prompt and itself; 0 where a row is padding.

    prompt: causal within itself; answer g: softmax(Q_g [K_P; K_g]ᵀ · scale) [V_P; V_g], causal in its own part.
    `scale` is 1/√(size of a head) by default.
    """
    real = torch.zeros(q.shape[:2], dtype=torch.bool)
    segments: list[Segment] = []
    start = 0
    for number, lengths in enumerate(rows):
        _check(number, lengths, q.shape[1])
        real[number, : sum(lengths)] = True
        prompt = len(segments)
        for place, length in enumerate(lengths):
            segments.append(Segment(start, length, prompt if place else -1))
            start += length
    inside = real.to(q.device)
    queries, keys, values = (x[inside].view(start, heads, -1) for x in (q, k, v))
    out = attention(queries, keys, values, TrieLevels.of(segments, start, q.device), scale)
    return torch.zeros_like(q).masked_scatter(inside[:, :, None], out.flatten(1))


def _check(number: int, lengths: Lengths, width: int) -> None:
    if not lengths or min(lengths) < 1:
        raise PodiumError(f"Row {number} has lengths {list(lengths)}: a prompt and answers of at least one token each.")
    if sum(lengths) > width:
        raise PodiumError(f"Row {number} has {sum(lengths)} tokens by its lengths, but there is room for {width}.")


def grouped_positions(lengths: Lengths) -> list[int]:
    """The position of every token of a row: each answer continues from the end of the prompt."""
    prompt, *answers = lengths
    return [*range(prompt), *(prompt + t for length in answers for t in range(length))]


def tokens_plain(lengths: Lengths) -> int:
    """Tokens that go through the model when every answer has its own copy of the prompt."""
    return sum(lengths[0] + length for length in lengths[1:])


def tokens_grouped(lengths: Lengths) -> int:
    """Tokens that go through the model when the prompt is encoded once."""
    return sum(lengths)
