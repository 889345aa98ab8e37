"""Attention over a trie as dense rectangles.

A token attends to the earlier tokens of its own segment and to all tokens of the segments that this one continues. The
tokens that continue a segment follow it in one run. So attention over a packed batch is one causal part within all
segments, and for each depth one part in which whole runs attend to whole segments: the prompt of a group is read once,
by all its answers together. The parts are combined by their log-sum-exps.

The forward pass can also follow the paths, each of which lists the tokens that a segment attends to. Where keys and
values of some tokens are given, paths begin with those, and following the paths is the only way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from podium.policy.model.device import to_device

__all__ = ["Segment", "TrieLevel", "TrieLevels"]


class Segment(NamedTuple):
    """Tokens between two branching points."""

    start: int  # its first node
    length: int
    before: int  # the index of the segment that it continues; −1: none


@dataclass(frozen=True)
class TrieLevel:
    """Runs of queries that attend to runs of keys. Boundaries are int32, as flash attention expects."""

    queries: Tensor | None  # [Q] nodes; None: all of them
    keys: Tensor | None  # [K] nodes; None: all of them
    query_edges: Tensor  # [runs + 1] where each run of queries begins
    key_edges: Tensor  # [runs + 1]
    longest: tuple[int, int]  # run of queries, of keys
    causal: bool = False


@dataclass(frozen=True)
class TrieLevels:
    """The causal part within segments, then one part for each depth at which segments are continued."""

    within: TrieLevel
    ancestors: list[TrieLevel]
    paths: Tensor  # for each run of `within`, all nodes that it attends to, in the order of their positions
    path_edges: Tensor  # [runs + 1] where each path begins
    longest_path: int
    given: int = 0  # cached nodes, whose keys and values precede those of the segments; `paths` count them

    @classmethod
    def of(
        cls,
        segments: Sequence[Segment],
        nodes: int,
        device: torch.device | str = "cpu",
        given: int = 0,
        known: Sequence[np.ndarray] = (),
    ) -> TrieLevels:
        """From segments in the order of their nodes; nodes beyond them are padding, a run of its own.

        Where nodes are given, `known` must hold the path to the end of each segment.
        """
        start = np.array([s.start for s in segments], dtype=np.int64)
        length = np.array([s.length for s in segments], dtype=np.int64)
        depth, reach = np.zeros(len(segments), dtype=np.int64), start + length  # the end of what continues it
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
            nodes_of_run = np.arange(ends[number], ends[number] + runs[number]) + given
            paths.append(np.concatenate([paths[before], nodes_of_run]) if before >= 0 else nodes_of_run)
        longest = max(map(len, paths))
        trails = to_device(np.concatenate(paths, dtype=np.int32), device), _edges(list(map(len, paths)), device)
        edges = _edges(runs, device)
        within = TrieLevel(None, None, edges, edges, (max(runs), max(runs)), causal=True)
        ancestors = []
        for level in range(int(depth.max()) + 1):
            chosen = np.flatnonzero((depth == level) & (reach > start + length))
            if len(chosen):
                ancestors.append(_level(start[chosen], length[chosen], reach[chosen], device))
        return cls(within, ancestors, *trails, longest, given)


def _level(start: np.ndarray, length: np.ndarray, reach: np.ndarray, device: torch.device | str) -> TrieLevel:
    end = start + length
    queries = np.concatenate([np.arange(a, b) for a, b in zip(end, reach, strict=True)])
    keys = np.concatenate([np.arange(a, b) for a, b in zip(start, end, strict=True)])
    longest = int((reach - end).max()), int(length.max())
    edges = _edges((reach - end).tolist(), device), _edges(length.tolist(), device)
    return TrieLevel(to_device(queries, device), to_device(keys, device), *edges, longest)


def _edges(lengths: Sequence[int], device: torch.device | str) -> Tensor:
    return to_device(np.cumsum([0, *lengths], dtype=np.int32), device)
