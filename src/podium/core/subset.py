"""Subsets of a batch, and several batches as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import occurrence
from podium.core.columns import Column
from podium.core.errors import PodiumError
from podium.core.keys import compact
from podium.core.relation import Relation

__all__ = ["concat", "take"]


def take(batch: Batch, level: str, chosen: Tensor) -> Batch:
    """The chosen elements of `level`, all elements below them, and those above that they belong to."""
    level = batch.level(level)
    if level == "batch" or not batch.is_above(level, "rollout"):
        raise PodiumError(
            f"Whole rollouts or groups can be taken, not single {level}s: to leave a {level} out of the training, "
            f"write a column '{level}.keep'."
        )
    chosen = _numbers(chosen, level, batch.size(level))
    codes, different = compact(chosen)
    if different < len(chosen):
        return _take_with_copies(batch, level, chosen, occurrence(codes, different))
    selected = {level: chosen, "batch": torch.zeros(1, dtype=torch.long, device=batch.device)}
    _select_above(batch, selected, level)
    _select_below(batch, selected)
    new: dict[str, Tensor] = {}
    links = {}
    for (child, parent), link in batch._links.items():
        if parent not in new:
            new[parent] = _renumbered(selected[parent], batch.size(parent))
        links[child, parent] = new[parent].index_select(0, link.index_select(0, selected[child]))
    columns = {name: _rows(column, selected[name.partition(".")[0]]) for name, column in batch._columns.items()}
    relations = {
        name: _take_pairs(r, _renumbered(selected[r.level], batch.size(r.level)))
        for name, r in batch._relations.items()
    }
    sizes = {name: len(selected[name]) for name in batch.levels}
    return Batch._trusted(links, sizes, columns, relations, batch.seed, batch._step)


def _numbers(chosen: Tensor, level: str, size: int) -> Tensor:
    """A mask or numbers as checked numbers."""
    chosen = torch.as_tensor(chosen)
    if chosen.dtype == torch.bool:
        if len(chosen) != size:
            raise PodiumError(f"The mask has {len(chosen)} values, but the batch has {size} {level}s.")
        chosen = chosen.nonzero().reshape(-1)
    if len(chosen) == 0:
        raise PodiumError(f"Nothing is left: no {level} was chosen.")
    if chosen.is_floating_point() or int(chosen.min()) < 0 or int(chosen.max()) >= size:
        raise PodiumError(f"The numbers of the {level}s to take must be integers from 0 to {size - 1}.")
    return chosen


def _select_above(batch: Batch, selected: dict[str, Tensor], level: str) -> None:
    for (child, parent), link in batch._links.items():
        if child == level and parent not in selected:
            selected[parent] = torch.unique(link.index_select(0, selected[level]))
            _select_above(batch, selected, parent)


def _select_below(batch: Batch, selected: dict[str, Tensor]) -> None:
    changed = True
    while changed:
        changed = False
        for child, parent in batch._links:
            if child not in selected and parent in selected:
                selected[child] = batch.partition(child, parent).members(selected[parent])
                changed = True


def _renumbered(rows: Tensor, size: int) -> Tensor:
    """[old number] the new number; −1 where the element was not taken."""
    new = torch.full((size,), -1, dtype=torch.long, device=rows.device)
    return new.index_copy(0, rows, torch.arange(len(rows), device=rows.device))


def _rows(column: Column, rows: Tensor) -> Column:
    if isinstance(column, Tensor):
        return column.index_select(0, rows)
    return tuple(column[i] for i in rows.tolist())


def _take_pairs(relation: Relation, new: Tensor) -> Relation:
    left, right = new.index_select(0, relation.left), new.index_select(0, relation.right)
    kept = ((left >= 0) & (right >= 0)).nonzero().reshape(-1)
    columns = {name: x.index_select(0, kept) for name, x in relation.columns.items()}
    return Relation(relation.level, left[kept], right[kept], columns)


def _take_with_copies(batch: Batch, level: str, chosen: Tensor, time: Tensor) -> Batch:
    """Copies of groups: the first occurrences, then the second ones, …, brought into the wanted order."""
    if level != "group":
        raise PodiumError(f"Only whole groups can be repeated; a {level} was chosen twice.")
    layers = [(time == k).nonzero().reshape(-1) for k in range(int(time.max()) + 1)]
    joined = concat([take(batch, level, chosen[rows]) for rows in layers])
    return take(joined, level, torch.argsort(torch.cat(layers)))


def concat(batches: Sequence[Batch]) -> Batch:
    """The batches one after another; groups stay separate even if they share a task."""
    if not batches:
        raise PodiumError("Nothing to concatenate.")
    head = batches[0]
    for other in batches[1:]:
        _check_alike(head, other)
    offsets: dict[str, list[int]] = {level: [0] for level in head.levels}
    for batch in batches:
        for level in head.levels:
            offsets[level].append(offsets[level][-1] + (0 if level == "batch" else batch.size(level)))
    links = {
        (child, parent): torch.cat([b._links[child, parent] + offsets[parent][i] for i, b in enumerate(batches)])
        for child, parent in head._links
    }
    columns = {name: _joined([b._columns[name] for b in batches], name) for name in head.columns}
    relations = {
        name: Relation(
            r.level,
            torch.cat([b.relation(name).left + offsets[r.level][i] for i, b in enumerate(batches)]),
            torch.cat([b.relation(name).right + offsets[r.level][i] for i, b in enumerate(batches)]),
            {c: torch.cat([b.relation(name)[c] for b in batches]) for c in r.columns},
        )
        for name, r in head._relations.items()
    }
    sizes = {level: 1 if level == "batch" else offsets[level][-1] for level in head.levels}
    return Batch._trusted(links, sizes, columns, relations, head.seed, head._step)


def _check_alike(head: Batch, other: Batch) -> None:
    structure: dict[str, tuple[Mapping[Any, Any], Mapping[Any, Any]]] = {
        "levels": (head._links, other._links),
        "columns": (head._columns, other._columns),
        "relations": (head._relations, other._relations),
    }
    for what, (ours, theirs) in structure.items():
        extra = [key if isinstance(key, str) else " → ".join(key) for key in set(ours) ^ set(theirs)]
        if extra:
            raise PodiumError(f"Batches with different {what} cannot be joined: {', '.join(sorted(extra))}.")
    if head.device != other.device:
        raise PodiumError(f"Batches on {head.device} and on {other.device} cannot be joined: move one with .to(...).")


def _joined(values: list[Any], name: str) -> Column:
    first: Column = values[0]
    if len({isinstance(value, Tensor) for value in values}) > 1:
        raise PodiumError(f"Column {name!r} holds numbers in one batch and objects in another.")
    if name.startswith("batch."):
        if not all(_same(first, value) for value in values[1:]):
            raise PodiumError(f"Column {name!r} differs between the batches: drop it with .without([{name!r}]).")
        return first
    if isinstance(first, Tensor):
        return torch.cat(values)
    return tuple(item for value in values for item in value)


def _same(a: Column, b: Column) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and bool(torch.isclose(a, b, rtol=0, atol=0, equal_nan=True).all())
    return a == b
