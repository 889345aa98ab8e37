"""What each part of a method has changed in an iteration. The report shows it; a run says at its end what never acted.

A part acts on the elements of a column that it changes: of a new column on those that are not 0, of a `keep` column on
those that it drops, of a relation on all pairs. A memory acts on what it recalls differently from one that has seen
nothing. A term of the objective acts on the elements that it gives a gradient, its clip on those that it clips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.memory import Memory, State
from podium.core.part import Part
from podium.core.relation import Relation

__all__ = ["activity", "changed_elements", "label", "recalled_elements"]


def label(part: Part | Memory) -> str:
    """The name under which a part is counted, such as `shape.Whiten`."""
    return f"{part.stage if isinstance(part, Part) else 'memories'}.{type(part).__name__}"


def changed_elements(before: Batch, columns: Mapping[str, Any]) -> int:
    """How many elements of these columns are not what they were before, or would be without the part."""
    return sum(_changed(name, before.get(name), value) for name, value in columns.items())


def _changed(name: str, old: Any, new: Any) -> int:
    if isinstance(new, Relation):
        return len(new.left)
    if not isinstance(new, Tensor):
        usual: Sequence[Any] = [None] * len(new) if old is None else old
        return sum(bool(value) and value != other for value, other in zip(new, usual, strict=True))
    if isinstance(old, Tensor) and old.shape == new.shape:
        return int(((new != old) & ~(new.isnan() & old.isnan())).sum())
    # Without the part, everything would be kept, and other columns would be 0.
    kept = name.partition(".")[2].split(".")[0] == "keep" and new.dtype == torch.bool
    return int((~new if kept else new != 0).sum())


def recalled_elements(memory: Memory, state: State, keys: Sequence[Any]) -> int:
    """How many elements of what a memory recalls of these tasks it would not recall without having seen anything; also
    the scalars that it exposes."""
    fresh, now = memory.recall(memory.initial(), keys), memory.recall(state, keys)
    changed = sum(_changed(name, fresh.get(name), value) for name, value in now.items())
    before, after = memory.scalars(memory.initial()), memory.scalars(state)
    return changed + sum(before.get(name) != value for name, value in after.items())


def activity(metrics: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """By name, in how many iterations a part acted, and in how many it was there."""
    counts: dict[str, tuple[int, int]] = {}
    for line in metrics:
        for name, elements in line.get("acted", {}).items():
            acted, present = counts.get(name, (0, 0))
            counts[name] = (acted + (elements > 0), present + 1)
    return counts
