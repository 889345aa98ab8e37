"""The rows of a file as the tasks of a world: which of them are held out, and the row of a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from podium.core.errors import PodiumError
from podium.worlds.graded import hashed_uniform

__all__ = ["at_least_one", "hashed_splits", "row_at", "rows_by_split"]


class _Row(Protocol):
    @property
    def prompt(self) -> str: ...


R = TypeVar("R", bound=_Row)


def rows_by_split(
    kind: str, read: Callable[[str], Sequence[R]], file: str, test_file: str, held_out: float
) -> Mapping[str, Sequence[R]]:
    """The rows of each split. Without a `test_file`, a share of them is held out, chosen by a hash of the prompt."""
    rows = read(file)
    if test_file:
        return {"train": rows, "test": read(test_file)}
    return hashed_splits(kind, rows, held_out)


def hashed_splits(kind: str, rows: Sequence[R], held_out: float) -> Mapping[str, Sequence[R]]:
    """The rows of each split, of which a share is held out, chosen by a hash of the prompt."""
    split: dict[str, list[R]] = {"train": [], "test": []}
    for row in rows:
        split["test" if hashed_uniform(kind, str(row.prompt)) < held_out else "train"].append(row)
    return split


def at_least_one(kind: str, rows: Sequence[R], held_out: float) -> Mapping[str, Sequence[R]]:
    """`hashed_splits`, with a prompt of few held out although the hash of none is small enough."""
    least = min(hashed_uniform(kind, str(row.prompt)) for row in rows)
    return hashed_splits(kind, rows, max(held_out, math.nextafter(least, 1)) if held_out else 0.0)


def row_at(rows: Mapping[str, Sequence[R]], index: int, split: str, file: str, held_out: float) -> R:
    """The row of a task; an error says why there is none."""
    chosen = rows[split]
    if not chosen:
        kind, remedy = ("held-out", "test_file, or a larger") if split == "test" else ("training", "a smaller")
        raise PodiumError(
            f"{file} leaves no {kind} tasks with held_out = {held_out}: give the world {remedy} held_out."
        )
    if index >= len(chosen):
        raise PodiumError(f"{file} has {len(chosen)} {split} tasks; number {index} was asked for (from 0).")
    return chosen[index]
