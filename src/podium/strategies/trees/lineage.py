"""Rollouts that share beginnings: who wrote what, where each goes its own way, and how one more is asked for."""

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

Path = list[tuple[Hashable, int]]  # the segments of a rollout: a key that is equal in those who share one, and tokens
# What `planted` writes. `rollout.fork` is the first token of the rollout's own, `rollout.parent` the index of whose
# text stands before it (−1: nobody's).
PLANTED = ("rollout.parent", "rollout.fork", "node.key")


def length(rollout: Rollout) -> int:
    """Tokens that the model has written, in all turns."""
    return sum(len(turn.ids) for turn in rollout.turns)


def head(rollout: Rollout, position: int, most: int) -> int:
    """The last position up to this one before which there are at most so many tokens, those of the context too."""
    found, begin = 0, 0
    for turn in rollout.turns:
        room = most - len(turn.context)
        if begin < position and room >= 0:
            found = min(position, begin + min(room, len(turn.ids)))
        begin += len(turn.ids)
    return found


def fork(play: Play, rollout: Rollout, position: int, chance: tuple[int, int] = (0, 0)) -> Play | Resume:
    """Rollouts that repeat the first `position` tokens of another one and go on by themselves."""
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
    raise AssertionError("a position within the text lies in a turn")


def paths(parents: Sequence[int], forks: Sequence[int], lengths: Sequence[int]) -> list[Path]:
    """The segments of rollouts that copy the first `fork` tokens of an earlier one, cut wherever one of them forks.

    A segment's key is the rollout that wrote it and its first token.
    """
    owned: list[list[tuple[int, int, int]]] = []  # of each rollout: (who wrote it, from, to)
    for row, (parent, place, size) in enumerate(zip(parents, forks, lengths, strict=True)):
        inherited = owned[parent] if parent >= 0 else []
        shared = [(who, start, min(end, place)) for who, start, end in inherited if start < place]
        owned.append([*shared, (row, place if parent >= 0 else 0, size)])
    cuts: dict[int, set[int]] = {}
    for pieces in owned:
        for who, _, end in pieces[:-1]:  # where somebody else goes on
            cuts.setdefault(who, set()).add(end)
    made: list[Path] = []
    for pieces in owned:
        path: Path = []
        for who, start, end in pieces:
            inside = [start, *sorted(c for c in cuts.get(who, ()) if start < c < end), end]
            path += [((who, a), b - a) for a, b in pairwise(inside) if b > a]
        made.append(path)
    return made


def planted(rollouts: Sequence[Rollout], along: Sequence[Path], parents: Sequence[int] | None = None) -> list[Rollout]:
    """The rollouts as a forest, in the order of their indices: with the level `node`, `rollout.parent` and
    `rollout.fork`; a token belongs to the policy in the first rollout that has it, and is copied in the others.

    Without `parents` the parent of a rollout is who wrote the last of the tokens that it copies.
    """
    names: dict[tuple[int, Hashable], int] = {}  # of a segment, by that of the one before it and by its key
    owner: dict[int, int] = {}
    made = []
    for row, (rollout, path) in enumerate(zip(rollouts, along, strict=True)):
        if sum(size for _, size in path) != length(rollout):
            raise PodiumError(f"The segments of rollout {row} do not cover its {length(rollout)} tokens.")
        keys = list[int]()
        for key, _ in path:
            keys.append(names.setdefault((keys[-1] if keys else -1, key), len(names)))
        new = [owner.setdefault(key, row) == row for key in keys]
        fork_at = sum(size for (_, size), own in zip(path, new, strict=True) if not own)
        parent = next((owner[key] for key, own in zip(reversed(keys), reversed(new), strict=True) if not own), -1)
        numbers = list(chain.from_iterable([n] * size for n, (_, size) in enumerate(path)))
        parent = parent if parents is None else parents[row]
        columns = {**rollout.columns, "parent": parent, "fork": fork_at, "index": row}
        turns = _numbered(rollout.turns, numbers, fork_at)
        made.append(dataclasses.replace(rollout, turns=turns, columns=columns, nodes={"key": keys}))
    return made


def _numbered(turns: Sequence[Turn], numbers: Sequence[int], fork_at: int) -> list[Turn]:
    """Turns whose tokens know their node and who wrote them."""
    made, before, (new, copied) = [], 0, (Origin.policy.name, Origin.copied.name)
    for turn in turns:
        size = len(turn.ids)
        tokens: dict[str, Any] = {**turn.tokens, "node": numbers[before : before + size]}
        shared = min(max(fork_at - before, 0), size)
        before += size
        origin = [copied] * shared + [new] * (size - shared)
        if turn.origin:
            origin = [o if was in (new, copied) else was for o, was in zip(origin, turn.origin, strict=True)]
        made.append(dataclasses.replace(turn, tokens=tokens, origin=origin))
    return made
