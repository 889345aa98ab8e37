"""Packing: token sequences as a trie, so that every distinct prefix goes through the model once.

Sequences with a common prefix (the rollouts of a group, the turns of a rollout, contexts with one system prompt) share
the nodes of that prefix. Linear layers see each node once and no padding; attention runs on stretches between branching
points, whose keys are gathered along the path from the root. All of this is index arithmetic on the host.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.policy.forward.trie_levels import Segment, TrieLevels
from podium.policy.model.device import to_device
from podium.policy.native.ops import Spans

__all__ = ["LEAST", "Bucket", "Packed", "common_prefix", "pack", "portions"]

Ids = tuple[int, ...]
Index = NDArray[np.int64]

# Attention pads the stretches of a bucket to one length; a stretch much shorter than the longest starts a new bucket.
SHORTEST = 0.6
# With fewer nodes, or fewer rows in a step, matrix products sum in another order, and the last bits of a token's
# numbers would depend on what else is in the batch.
LEAST = 16
PORTION = 16384  # tokens that go through the model at once


@dataclass(frozen=True)
class Bucket:
    """Stretches of similar length, padded for attention. Values index nodes; padding points at node 0."""

    queries: Tensor  # [B, Tq] the nodes of the stretch (indices among the new nodes)
    keys: Tensor  # [B, T] all nodes on the path (indices among the given nodes, then the new ones)
    mask: Tensor | None  # [B, 1, Tq, T] which keys a query may attend to; None: plain causal order

    def to(self, device: torch.device | str) -> Bucket:
        mask = None if self.mask is None else self.mask.to(device)
        return Bucket(self.queries.to(device), self.keys.to(device), mask)


@dataclass(frozen=True)
class Packed:
    """A batch of sequences as distinct nodes."""

    ids: Tensor  # [N] token of each new node
    position: Tensor  # [N] its position in its sequence
    nodes: list[Index]  # the nodes of each sequence, given ones first
    stretches: list[tuple[int, Index]]  # where each stretch begins, and the path to its end
    segments: list[Segment]  # the pieces between all branching points, in the order of their nodes
    trails: list[Index]  # the path to the end of each segment
    given: int = 0  # nodes whose keys and values are cached
    count: int = 0  # new nodes, without padding
    grain: int = 1  # lengths of attention are multiples of this

    @cached_property
    def spans(self) -> Spans:
        """The stretches as the native kernels take them."""
        return Spans.of(self.stretches)

    @cached_property
    def levels(self) -> TrieLevels:
        """The segments as attention on a GPU takes them."""
        return TrieLevels.of(self.segments, len(self.ids), self.ids.device, self.given, self.trails)

    @cached_property
    def _padded(self) -> tuple[list[Bucket], Tensor]:
        buckets, back = _buckets(self.stretches, len(self.ids), self.given, self.grain)
        device = self.ids.device
        return [b.to(device) for b in buckets], torch.from_numpy(back).to(device)

    @property
    def buckets(self) -> list[Bucket]:
        """The stretches, padded."""
        return self._padded[0]

    @property
    def back(self) -> Tensor:
        """[N] where each node's attention output lies among the buckets' flattened outputs."""
        return self._padded[1]

    @property
    def longest(self) -> int:
        """The length of the longest path."""
        return max(len(path) for _, path in self.stretches)

    @property
    def tokens(self) -> int:
        """Tokens of all sequences, each counted as often as it occurs."""
        return sum(len(n) for n in self.nodes)


@dataclass
class _Leaf:
    nodes: Index  # of the whole path
    start: int  # the first position whose node no earlier leaf has
    prefixes: list[int]  # sequences that end on its path
    shared: int  # how many positions it shares with earlier leaves
    cuts: set[int] = field(default_factory=set)  # positions after `start` at which later leaves branch off


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the longest common prefix of two sequences."""
    limit = min(len(a), len(b))
    done = 0
    while done < limit and a[done : done + 64] == b[done : done + 64]:  # whole stretches at C speed
        done += 64
    done = min(done, limit)
    while done < limit and a[done] == b[done]:
        done += 1
    return done


def portions(texts: Iterable[Ids]) -> Iterator[list[Ids]]:
    """Texts in order, about PORTION tokens at a time."""
    portion: list[Ids] = []
    size = 0
    for text in texts:
        if portion and size + len(text) > PORTION:
            yield portion
            portion, size = [], 0
        portion.append(text)
        size += len(text)
    if portion:
        yield portion


def pack(
    sequences: Sequence[Ids],
    device: torch.device | str = "cpu",
    given: Sequence[tuple[int, int]] | None = None,
    total: int = 0,
    grain: int = 1,
    least: int = 1,
) -> Packed:
    """Build the trie of non-empty sequences.

    `total` nodes are given: their keys and values are cached. `given` says for each sequence where its nodes begin
    among them and how many of its first tokens they cover. The last token of a sequence is never taken as given, so
    that its hidden state exists. Lengths of attention are rounded up to `grain`. Fewer than `least` tokens between two
    branching points are not shared: each sequence gets its own copy.
    """
    cached = given or [(0, 0)] * len(sequences)
    leaves, ids, position = _trie(sequences, cached, least)
    nodes: list[Index] = [leaves[0].nodes] * len(sequences)
    for leaf in leaves:
        leaf.nodes = np.where(leaf.nodes < 0, -1 - leaf.nodes, leaf.nodes + total)
        for number in leaf.prefixes:
            nodes[number] = leaf.nodes[: len(sequences[number])]
    count, spare = len(ids), max(0, LEAST - len(ids))
    return Packed(
        to_device(np.pad(ids, (0, spare)), device),
        to_device(np.pad(position, (0, spare)), device),
        nodes,
        _stretches(leaves),
        *_segments(leaves),
        total,
        count,
        grain,
    )


def _trie(sequences: Sequence[Ids], cached: Sequence[tuple[int, int]], least: int) -> tuple[list[_Leaf], Index, Index]:
    """Leaves with their paths; tokens and positions of the new nodes.

    New nodes are numbered from 0; given node k is written as −1 − k.
    """
    # In lexicographic order a sequence follows its prefixes, and its neighbours share the longest prefixes with it.
    order = sorted(range(len(sequences)), key=lambda i: sequences[i])
    ends: list[list[int]] = [[]]  # the sequences that end on the path of each leaf, the longest last
    for number, after in zip(order, [*order[1:], None], strict=True):
        ends[-1].append(number)
        sequence = sequences[number]
        if after is not None and sequences[after][: len(sequence)] != sequence:
            ends.append([])
    longest = [sequences[numbers[-1]] for numbers in ends]
    common = [0, *(common_prefix(a, b) for a, b in pairwise(longest))]
    leaves: list[_Leaf] = []
    ids = array("q")
    position: list[Index] = []
    # The leaves that own the nodes of the current path, from the root, and how many tokens the path follows each.
    path: list[_Leaf] = []
    followed: list[int] = []
    for numbers, sequence, shared in zip(ends, longest, _worth_sharing(common, least), strict=True):
        begin, count = cached[numbers[-1]]
        count = min(count, min(len(sequences[i]) for i in numbers) - 1)
        while path and path[-1].start >= shared:
            path.pop()
            followed.pop()
        if path and shared <= followed[-1]:  # else it branches off within given nodes, which no leaf owns
            path[-1].cuts.add(shared)
            followed[-1] = shared
        pieces = [leaves[-1].nodes[:shared]] if shared else []
        if count > shared:
            pieces.append(np.arange(-1 - begin - shared, -1 - begin - count, -1, dtype=np.int64))
        start = max(shared, count)
        pieces.append(np.arange(len(ids), len(ids) + len(sequence) - start, dtype=np.int64))
        ids.extend(sequence[start:])
        position.append(np.arange(start, len(sequence), dtype=np.int64))
        leaves.append(_Leaf(np.concatenate(pieces), start, numbers, shared))
        path.append(leaves[-1])
        followed.append(len(sequence))
    return leaves, np.frombuffer(ids, dtype=np.int64), np.concatenate(position)


def _worth_sharing(common: list[int], least: int) -> list[int]:
    """How many tokens each leaf shares with the one before, if every piece between branching points has `least`."""
    if least <= 1:
        return common
    lengths, kept = np.asarray(common), np.zeros(len(common), dtype=np.int64)
    parts = [(0, len(common), 0)]  # leaves that all have the first `depth` tokens in common
    while parts:
        low, high, depth = parts.pop()
        if high - low < 2:
            continue
        inside = lengths[low + 1 : high]
        shortest = int(inside.min())
        depth = shortest if shortest - depth >= least else depth
        splits = low + 1 + np.flatnonzero(inside == shortest)
        kept[splits] = depth
        edges = [low, *splits.tolist(), high]
        parts += [(a, b, depth) for a, b in pairwise(edges)]
    return kept.tolist()


def _stretches(leaves: list[_Leaf]) -> list[tuple[int, Index]]:
    """Where each stretch begins, and the path to its end. A leaf from which others branch off has two."""
    stretches = []
    for leaf in leaves:
        if leaf.cuts:
            stretches.append((leaf.start, leaf.nodes[: min(leaf.cuts)]))
        stretches.append((min(leaf.cuts, default=leaf.start), leaf.nodes))
    return stretches


def _segments(leaves: list[_Leaf]) -> tuple[list[Segment], list[Index]]:
    """The new nodes of leaves, cut at branching points, with links to what they continue; the paths to their ends."""
    segments: list[Segment] = []
    trails: list[Index] = []
    ending: dict[int, int] = {}  # by position: the segment on the current path that ends there
    begin = 0
    for leaf in leaves:
        ending = {end: number for end, number in ending.items() if end <= leaf.shared}
        before = ending.get(leaf.shared, -1)
        edges = [leaf.start, *sorted(leaf.cuts), len(leaf.nodes)]
        for low, high in pairwise(edges):
            segments.append(Segment(begin, high - low, before))
            trails.append(leaf.nodes[:high])
            before = ending[high] = len(segments) - 1
            begin += high - low
    return segments, trails


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
            new = path[start:] - given
            queries[row, : len(new)] = new
            keys[row, : len(path)] = path
            back[new] = np.arange(len(new)) + (offset + row * width)
        mask = None
        if any(start for start, _ in part):
            at = torch.tensor([start for start, _ in part])[:, None] + torch.arange(width)  # [B, Tq] of each query
            mask = (torch.arange(length) <= at[:, :, None])[:, None]
        buckets.append(Bucket(torch.from_numpy(queries), torch.from_numpy(keys), mask))
        offset += len(part) * width
    return buckets, back
