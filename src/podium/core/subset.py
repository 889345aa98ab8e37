"""Parts of a batch, and several batches as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch, Column, Relation
from podium.core.errors import PodiumError
from podium.core.partition import compact

__all__ = ["concat", "take"]


def take(batch: Batch, level: str, chosen: Tensor) -> Batch:
    """The chosen elements of `level`, all that they hold, and what they belong to."""
    level = batch.level(level)
    chosen = chosen.nonzero().reshape(-1) if chosen.dtype == torch.bool else chosen
    if chosen.numel() == 0:
        raise PodiumError(f"Nothing is left: no {level} was chosen.")
    if chosen.unique().numel() < chosen.numel():
        return _take_with_copies(batch, level, chosen)
    selected = {level: chosen, "batch": torch.zeros(1, dtype=torch.long, device=batch.device)}
    _select_above(batch, selected, level)
    _select_below(batch, selected)
    new = {name: _numbers(selected[name], batch.size(name)) for name in selected}
    links = {
        (child, parent): new[parent].index_select(0, link.index_select(0, selected[child]))
        for (child, parent), link in batch._links.items()
    }
    columns: dict[str, Column] = {}
    for name, column in batch._columns.items():
        rows = selected[name.partition(".")[0]]
        if isinstance(column, Tensor):
            columns[name] = column.index_select(0, rows)
        else:
            columns[name] = tuple(column[i] for i in rows.tolist())
    relations = {name: _take_pairs(r, new[r.level]) for name, r in batch._relations.items()}
    sizes = {name: selected[name].numel() for name in batch.levels}
    return Batch._trusted(links, sizes, columns, relations, batch.seed, batch._step)


def _select_above(batch: Batch, selected: dict[str, Tensor], level: str) -> None:
    for (child, parent), link in batch._links.items():
        if child == level and parent not in selected:
            selected[parent] = link.index_select(0, selected[level]).unique()
            _select_above(batch, selected, parent)


def _select_below(batch: Batch, selected: dict[str, Tensor]) -> None:
    changed = True
    while changed:
        changed = False
        for (child, parent), link in batch._links.items():
            if child not in selected and parent in selected:
                place = _numbers(selected[parent], batch.size(parent)).index_select(0, link)
                rows = (place >= 0).nonzero().reshape(-1)
                selected[child] = rows.index_select(0, torch.argsort(place[rows], stable=True))
                changed = True


def _numbers(rows: Tensor, size: int) -> Tensor:
    """For each old number the new one, −1 where it is gone."""
    new = torch.full((size,), -1, dtype=torch.long, device=rows.device)
    return new.index_copy(0, rows, torch.arange(rows.numel(), device=rows.device))


def _take_pairs(relation: Relation, new: Tensor) -> Relation:
    left, right = new.index_select(0, relation.left), new.index_select(0, relation.right)
    kept = ((left >= 0) & (right >= 0)).nonzero().reshape(-1)
    columns = {name: x.index_select(0, kept) for name, x in relation.columns.items()}
    return Relation(relation.level, left[kept], right[kept], columns)


def _take_with_copies(batch: Batch, level: str, chosen: Tensor) -> Batch:
    """Copies of groups: the first occurrences, then the second ones, …, brought into the wanted order."""
    if level != "group":
        raise PodiumError(f"Only whole groups can be repeated; a {level} was chosen twice.")
    codes, count = compact(chosen)
    order = torch.argsort(codes, stable=True)
    place = torch.arange(chosen.numel(), device=chosen.device)
    first = place.new_full((count,), chosen.numel()).scatter_reduce(0, codes[order], place, "amin")
    occurrence = torch.empty_like(place).index_copy(0, order, place - first[codes[order]])
    layers = [(occurrence == k).nonzero().reshape(-1) for k in range(int(occurrence.max()) + 1)]
    joined = concat([take(batch, level, chosen[rows]) for rows in layers])
    return take(joined, level, torch.argsort(torch.cat(layers)))


def concat(batches: Sequence[Batch]) -> Batch:
    """One batch after another; groups stay apart even if they are of the same task."""
    if not batches:
        raise PodiumError("Nothing to concatenate.")
    head = batches[0]
    for other in batches[1:]:
        for what in ("levels", "columns"):
            extra = set(getattr(head, what)) ^ set(getattr(other, what))
            if extra:
                raise PodiumError(f"Batches with different {what} cannot be joined: {', '.join(sorted(extra))}.")
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


def _joined(values: list[Any], name: str) -> Column:
    if name.startswith("batch."):
        first: Column = values[0]
        return first
    if isinstance(values[0], Tensor):
        return torch.cat(values)
    return tuple(item for value in values for item in value)
