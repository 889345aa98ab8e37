"""Rows [prompt | answer 1 | …] of queries, keys and values, by the packing and the attention that runs use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from podium.policy.cuda.attention import attention
from podium.policy.forward.pack import Packed, pack


def packed_row(lengths: Sequence[int]) -> Packed:
    """The trie of a prompt and its answers, whose lengths are given; node i is the row's token i."""
    prompt = tuple(range(lengths[0]))
    # Every token is its place in the row: sequences then sort by the places of their answers.
    return pack([prompt + tuple(range(start, end)) for start, end in pairwise(accumulate(lengths))])


def row_attention(
    q: Tensor, k: Tensor, v: Tensor, rows: Sequence[Sequence[int]], heads: int = 1, scale: float | None = None
) -> Tensor:
    """Attention [rows, tokens, D] in which an answer attends to its prompt and itself; 0 where a row is padding."""
    result = torch.zeros_like(q)
    for number, lengths in enumerate(rows):
        packed = packed_row(lengths)
        nodes = [_nodes(x[number, : packed.count], len(packed.ids), heads) for x in (q, k, v)]
        result[number, : packed.count] = attention(*nodes, packed.levels, scale)[: packed.count].flatten(1)
    return result


def _nodes(x: Tensor, count: int, heads: int) -> Tensor:
    """[node, head, size], with nodes that pad a short trie."""
    whole = x.new_zeros(count, x.shape[1])
    whole[: len(x)] = x
    return whole.view(count, heads, -1)
