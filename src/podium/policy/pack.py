"""Packing: token sequences as a trie, so that every distinct prefix goes through the model once.

Sequences that begin alike (the rollouts of a group, the turns of a rollout, contexts with one system prompt) share the
nodes of their common beginning. Linear layers see each node once and no padding; attention runs on stretches between
branching points, whose keys are gathered along the path from the root. All of it is index arithmetic on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.policy.native.ops import Spans

__all__ = ["Bucket", "Packed", "common_prefix", "pack"]

Ids = tuple[int, ...]
Index = NDArray[np.int64]

# Attention pads the stretches of a bucket to one length; one that is much shorter than the longest starts a new bucket.
SHORTEST = 0.6
# With fewer nodes than this matrix products sum in another order, and the last bits of a token's numbers would depend
# on what else is in the batch.
LEAST = 16


@dataclass(frozen=True)
class Bucket:
    """Stretches of similar length, padded for attention. Values index nodes; padding points at node 0."""

    queries: Tensor  # [B, Tq] the nodes of the stretch (indices among the new nodes)
    keys: Tensor  # [B, T] all nodes on the path (indices among the given nodes, then the new ones)
    mask: Tensor | None  # [B, 1, Tq, T] where a query may look; None: plain causal order

    def to(self, device: torch.device | str) -> Bucket:
        mask = None if self.mask is None else self.mask.to(device)
        return Bucket(self.queries.to(device), self.keys.to(device), mask)


@dataclass(frozen=True)
class Packed:
    """A batch of sequences as distinct nodes."""

    ids: Tensor  # [N] token of each new node
    position: Tensor  # [N] its place in its sequence
    buckets: list[Bucket]
    back: Tensor  # [N] where each node's attention output lies among the buckets' flattened outputs
    nodes: list[Index]  # for each sequence its nodes, given ones first
    stretches: list[tuple[int, Index]]  # where each stretch begins, and the path to its end
    given: int = 0  # nodes whose keys and values are already known
    count: int = 0  # nodes that the model must compute

    @cached_property
    def spans(self) -> Spans:
        """The stretches as the kernels want them."""
        return Spans.of(self.stretches)

    @property
    def tokens(self) -> int:
        """Tokens of all sequences, each counted as often as it occurs."""
        return sum(len(n) for n in self.nodes)


@dataclass
class _Leaf:
    nodes: Index  # of the whole path
    start: int  # the first position whose node no leaf before it has
    prefixes: list[int]  # sequences that end on its path
    cut: int  # the first position at which a later leaf leaves the path


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    limit = min(len(a), len(b))
    done = 0
    while done < limit and a[done : done + 64] == b[done : done + 64]:  # whole stretches at C speed
        done += 64
    done = min(done, limit)
    while done < limit and a[done] == b[done]:
        done += 1
    return done


def pack(
    sequences: Sequence[Ids],
    device: torch.device | str = "cpu",
    given: Sequence[tuple[int, int]] | None = None,
    total: int = 0,
    grain: int = 1,
) -> Packed:
    """Build the trie of non-empty sequences.

    `total` nodes are given: their keys and values are known. `given` says for each sequence where its own begin among
    them and for how many of its first tokens. The last token of a sequence is never taken as given, so that its hidden
    state exists. Lengths of attention are rounded up to `grain`.
    """
    known = given or [(0, 0)] * len(sequences)
    leaves, ids, position = _trie(sequences, known)
    nodes: list[Index] = [leaves[0].nodes] * len(sequences)
    for leaf in leaves:
        leaf.nodes = np.where(leaf.nodes < 0, -1 - leaf.nodes, leaf.nodes + total)
        for number in leaf.prefixes:
            nodes[number] = leaf.nodes[: len(sequences[number])]
    count, spare = len(ids), max(0, LEAST - len(ids))
    ids, position = ids + [0] * spare, position + [0] * spare
    stretches = _stretches(leaves)
    buckets, back = _buckets(stretches, len(ids), total, grain)
    return Packed(
        torch.from_numpy(np.asarray(ids, dtype=np.int64)).to(device),
        torch.from_numpy(np.asarray(position, dtype=np.int64)).to(device),
        [b.to(device) for b in buckets],
        torch.from_numpy(back).to(device),
        nodes,
        stretches,
        total,
        count,
    )


def _trie(sequences: Sequence[Ids], known: Sequence[tuple[int, int]]) -> tuple[list[_Leaf], list[int], list[int]]:
    """Leaves with their paths. New nodes are numbered from 0; the given node k is −1 − k."""
    # In lexicographic order a sequence follows its prefixes, and shares most with its neighbour.
    order = sorted(range(len(sequences)), key=lambda i: sequences[i])
    leaves: list[_Leaf] = []
    ids: list[int] = []
    position: list[int] = []
    before: Ids = ()
    waiting: list[int] = []
    path: list[_Leaf] = []  # the leaves that own the nodes of the current path, from the root
    for place, number in enumerate(order):
        sequence = sequences[number]
        waiting.append(number)
        if place + 1 < len(order):
            after = sequences[order[place + 1]]
            if len(after) >= len(sequence) and after[: len(sequence)] == sequence:
                continue  # its nodes lie on the path of a longer one
        shared = common_prefix(before, sequence) if leaves else 0
        begin, count = known[number]
        count = min(count, min(len(sequences[i]) for i in waiting) - 1)
        while path and path[-1].start >= shared:
            path.pop()
        if path:
            path[-1].cut = min(path[-1].cut, shared)
        pieces = [leaves[-1].nodes[:shared]] if shared else []
        if count > shared:
            pieces.append(np.arange(-1 - begin - shared, -1 - begin - count, -1, dtype=np.int64))
        start = max(shared, count)
        pieces.append(np.arange(len(ids), len(ids) + len(sequence) - start, dtype=np.int64))
        ids.extend(sequence[start:])
        position.extend(range(start, len(sequence)))
        leaves.append(_Leaf(np.concatenate(pieces), start, waiting, len(sequence)))
        path.append(leaves[-1])
        before, waiting = sequence, []
    return leaves, ids, position


def _stretches(leaves: list[_Leaf]) -> list[tuple[int, Index]]:
    """Where each stretch begins, and the path to its end. A leaf from which others branch off has two."""
    found = []
    for leaf in leaves:
        if leaf.cut < len(leaf.nodes):
            found.append((leaf.start, leaf.nodes[: leaf.cut]))
        found.append((leaf.cut if leaf.cut < len(leaf.nodes) else leaf.start, leaf.nodes))
    return found


def _buckets(stretches: list[tuple[int, Index]], nodes: int, given: int, grain: int) -> tuple[list[Bucket], Index]:
    """Pad stretches of similar length together, and note where each node's output will lie."""
    parts: list[list[tuple[int, Index]]] = []
    for stretch in sorted(stretches, key=lambda s: -len(s[1])):
        if not parts or -(-len(stretch[1]) // grain) * grain < SHORTEST * len(parts[-1][0][1]):
            parts.append([])
        parts[-1].append(stretch)
    back = np.zeros(nodes, dtype=np.int64)
    buckets: list[Bucket] = []
    offset = 0
    for part in parts:
        length = -(-len(part[0][1]) // grain) * grain
        width = -(-max(len(path) - start for start, path in part) // grain) * grain
        queries = np.zeros((len(part), width), dtype=np.int64)
        keys = np.zeros((len(part), length), dtype=np.int64)
        for row, (start, path) in enumerate(part):
            own = path[start:] - given
            queries[row, : len(own)] = own
            keys[row, : len(path)] = path
            back[own] = np.arange(len(own)) + (offset + row * width)
        mask = None
        if any(start for start, _ in part):
            at = torch.tensor([start for start, _ in part])[:, None] + torch.arange(width)  # [B, Tq] of each query
            mask = (torch.arange(length) <= at[:, :, None])[:, None]
        buckets.append(Bucket(torch.from_numpy(queries), torch.from_numpy(keys), mask))
        offset += len(part) * width
    return buckets, back
