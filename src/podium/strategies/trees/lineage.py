"""Rollouts that share prefixes: which rollout wrote which tokens, and how to request another fork."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from itertools import chain, pairwise
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.strategies.requests import Play, Resume, Written

__all__ = ["PLANTED", "Path", "fork", "head", "length", "paths", "planted"]

Path = list[tuple[Hashable, int]]  # a rollout's segments: a key that rollouts with the same segment share, and tokens
# What `planted` writes. `rollout.fork` is the first token that the rollout does not copy, `rollout.parent` the index of
# the rollout that it copies from (−1: none).
PLANTED = ("rollout.parent", "rollout.fork", "node.key")


def length(rollout: Rollout) -> int:
    """Tokens of all turns of a rollout."""
    return sum(len(turn.ids) for turn in rollout.turns)


def head(rollout: Rollout, position: int, most: int) -> int:
    """The last position up to `position` that has at most `most` tokens before it, those of the context included."""
    last, start = 0, 0
    for turn in rollout.turns:
        left = most - len(turn.context)
        if start < position and left >= 0:
            last = min(position, start + min(left, len(turn.ids)))
        start += len(turn.ids)
    return last


def fork(play: Play, rollout: Rollout, position: int, chance: tuple[int, int] = (0, 0)) -> Play | Resume:
    """A request for rollouts that copy the first `position` tokens of another one and continue on their own."""
    size = length(rollout)
    if not 0 <= position <= size:
        raise PodiumError(f"A fork at token {position} of a rollout of {size} tokens: it must lie within the text.")
    if position == 0:
        return play
    before = 0
    for number, turn in enumerate(rollout.turns):
        if position <= before + len(turn.ids):
            begun = dataclasses.replace(play, begun=Written.of(turn, position - before))
            return Resume(begun, tuple(rollout.turns[:number]), chance) if number else begun
        before += len(turn.ids)
    raise AssertionError("every position lies in a turn")


def paths(parents: Sequence[int], forks: Sequence[int], lengths: Sequence[int]) -> list[Path]:
    """The segments of rollouts that copy the first `fork` tokens of an earlier one, cut wherever any of them forks.

    A segment's key is the rollout that wrote it and its first token.
    """
    pieces_of: list[list[tuple[int, int, int]]] = []  # for each rollout: (the rollout that wrote a piece, start, end)
    for row, (parent, position, size) in enumerate(zip(parents, forks, lengths, strict=True)):
        inherited = pieces_of[parent] if parent >= 0 else []
        shared = [(writer, start, min(end, position)) for writer, start, end in inherited if start < position]
        pieces_of.append([*shared, (row, position if parent >= 0 else 0, size)])
    cuts: dict[int, set[int]] = {}
    for pieces in pieces_of:
        for writer, _, end in pieces[:-1]:  # where another rollout branches off
            cuts.setdefault(writer, set()).add(end)
    result: list[Path] = []
    for pieces in pieces_of:
        path: Path = []
        for writer, start, end in pieces:
            inside = [start, *sorted(c for c in cuts.get(writer, ()) if start < c < end), end]
            path += [((writer, a), b - a) for a, b in pairwise(inside) if b > a]
        result.append(path)
    return result


def planted(rollouts: Sequence[Rollout], along: Sequence[Path], parents: Sequence[int] | None = None) -> list[Rollout]:
    """The rollouts as a forest, in the order of their indices: with the level `node`, `rollout.parent` and
    `rollout.fork`. A token has the origin `policy` in the first rollout that contains it, and `copied` in the others.

    Without `parents`, the parent of a rollout is the one that wrote the last token it copies.
    """
    nodes: dict[tuple[int, Hashable], int] = {}  # numbers of the segments, by the node before and the segment's key
    owner: dict[int, int] = {}  # the first rollout that contains a node
    forest = []
    for row, (rollout, path) in enumerate(zip(rollouts, along, strict=True)):
        if sum(size for _, size in path) != length(rollout):
            raise PodiumError(f"The segments of rollout {row} do not cover its {length(rollout)} tokens.")
        keys = list[int]()
        for key, _ in path:
            keys.append(nodes.setdefault((keys[-1] if keys else -1, key), len(nodes)))
        new = [owner.setdefault(key, row) == row for key in keys]
        fork_at = sum(size for (_, size), is_new in zip(path, new, strict=True) if not is_new)
        parent = next((owner[key] for key, is_new in zip(reversed(keys), reversed(new), strict=True) if not is_new), -1)
        numbers = list(chain.from_iterable([n] * size for n, (_, size) in enumerate(path)))
        parent = parent if parents is None else parents[row]
        columns = {**rollout.columns, "parent": parent, "fork": fork_at, "index": row}
        turns = _numbered(rollout.turns, numbers, fork_at)
        forest.append(dataclasses.replace(rollout, turns=turns, columns=columns, nodes={"key": keys}))
    return forest


def _numbered(turns: Sequence[Turn], numbers: Sequence[int], fork_at: int) -> list[Turn]:
    """The turns with the node and the origin of each token."""
    numbered, before, (new, copied) = [], 0, (Origin.policy.name, Origin.copied.name)
    for turn in turns:
        size = len(turn.ids)
        tokens: dict[str, Any] = {**turn.tokens, "node": numbers[before : before + size]}
        shared = min(max(fork_at - before, 0), size)
        before += size
        origin = [copied] * shared + [new] * (size - shared)
        if turn.origin:
            origin = [o if was in (new, copied) else was for o, was in zip(origin, turn.origin, strict=True)]
        numbered.append(dataclasses.replace(turn, tokens=tokens, origin=origin))
    return numbered
