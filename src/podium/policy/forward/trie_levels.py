"""Attention over a trie as dense rectangles.

A token looks at the tokens before it in its own segment, and at all tokens of the segments that this one continues. The
tokens that continue a segment follow it in one run. So attention over a packed batch is one causal part within all
segments, and for each depth one part in which whole runs look at whole segments: the prompt of a group is read once, by
all its answers together. The parts are joined by their log-sums of exponentials.

The forward pass can also go along the paths, each of which lists the tokens that a segment looks at. Where keys and
values of some tokens are given, paths begin with those, and there is no other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from podium.policy.model.device import put

__all__ = ["Level", "Levels", "Segment"]


class Segment(NamedTuple):
    """Tokens between two branching points."""

    start: int  # its first node
    length: int
    before: int  # the number of the segment that it continues; −1: none


@dataclass(frozen=True)
class Level:
    """Runs of queries that look at runs of keys. Boundaries are int32, as flash attention wants them."""

    queries: Tensor | None  # [Q] nodes; None: all of them
    keys: Tensor | None  # [K] nodes; None: all of them
    query_edges: Tensor  # [runs + 1] where each run of queries begins
    key_edges: Tensor  # [runs + 1]
    longest: tuple[int, int]  # run of queries, of keys
    causal: bool = False


@dataclass(frozen=True)
class Levels:
    """The causal part within segments, then one part for each depth at which segments are continued."""

    own: Level
    above: list[Level]
    paths: Tensor  # all nodes that a run of `own` looks at, in the order of their positions, run after run
    path_edges: Tensor  # [runs + 1] where each path begins
    longest_path: int
    given: int = 0  # nodes whose keys and values stand before those of the segments; `paths` count them

    @classmethod
    def of(
        cls,
        segments: Sequence[Segment],
        nodes: int,
        device: torch.device | str = "cpu",
        given: int = 0,
        known: Sequence[np.ndarray] = (),
    ) -> Levels:
        """From segments in the order of their nodes; what lies beyond them is padding, a run of its own. Where nodes
        are given, the path to the end of each segment must be `known`."""
        start = np.array([s.start for s in segments], dtype=np.int64)
        length = np.array([s.length for s in segments], dtype=np.int64)
        depth, reach = np.zeros(len(segments), dtype=np.int64), start + length  # where what continues it ends
        for number, segment in enumerate(segments):
            if segment.before >= 0:
                depth[number] = depth[segment.before] + 1
        for number in range(len(segments) - 1, -1, -1):
            before = segments[number].before
            if before >= 0:
                reach[before] = max(reach[before], reach[number])
        filled = int(start[-1] + length[-1])
        runs = [*length.tolist(), *([nodes - filled] if nodes > filled else [])]
        ends = [*start.tolist(), filled]
        paths = list(known)
        for number in range(len(paths), len(runs)):
            before = segments[number].before if number < len(segments) else -1
            itself = np.arange(ends[number], ends[number] + runs[number]) + given
            paths.append(np.concatenate([paths[before], itself]) if before >= 0 else itself)
        longest = max(map(len, paths))
        trails = put(np.concatenate(paths, dtype=np.int32), device), _edges(list(map(len, paths)), device)
        edges = _edges(runs, device)
        own = Level(None, None, edges, edges, (max(runs), max(runs)), causal=True)
        above = []
        for level in range(int(depth.max()) + 1):
            chosen = np.flatnonzero((depth == level) & (reach > start + length))
            if len(chosen):
                above.append(_level(start[chosen], length[chosen], reach[chosen], device))
        return cls(own, above, *trails, longest, given)


def _level(start: np.ndarray, length: np.ndarray, reach: np.ndarray, device: torch.device | str) -> Level:
    end = start + length
    queries = np.concatenate([np.arange(a, b) for a, b in zip(end, reach, strict=True)])
    keys = np.concatenate([np.arange(a, b) for a, b in zip(start, end, strict=True)])
    longest = int((reach - end).max()), int(length.max())
    edges = _edges((reach - end).tolist(), device), _edges(length.tolist(), device)
    return Level(put(queries, device), put(keys, device), *edges, longest)


def _edges(lengths: Sequence[int], device: torch.device | str) -> Tensor:
    return put(np.cumsum([0, *lengths], dtype=np.int32), device)
