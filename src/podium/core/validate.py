"""Validation of what a batch is made of: everything is checked once, when it enters."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from podium.core.cells import occurrence
from podium.core.columns import BOOLEAN, ENUMS, FINITE, Column
from podium.core.errors import PodiumError, nearest
from podium.core.keys import compact
from podium.core.partition import Partition
from podium.core.relation import Relation

__all__ = ["check_link", "check_relation", "checked_column", "checked_segments", "validated"]

Links = dict[tuple[str, str], Tensor]


def validated(
    links: Mapping[tuple[str, str], Any],
    columns: Mapping[str, Any],
    sizes: Mapping[str, int],
    relations: Mapping[str, Relation],
) -> tuple[Links, dict[str, int], dict[str, Column], dict[str, Relation]]:
    """Checked links, level sizes, columns and relations; raises one clear error otherwise."""
    checked = {key: torch.as_tensor(index) for key, index in links.items()}
    if ("rollout", "group") not in checked:
        raise PodiumError("A batch needs the group of each rollout: links['rollout', 'group'].")
    device = checked["rollout", "group"].device
    all_sizes = _sizes(checked, sizes, device)
    if all_sizes["rollout"] == 0:
        raise PodiumError("The batch is empty: it has no rollouts.")
    for key in checked:
        check_link(key, checked, all_sizes)
    _check_ways_up(checked)
    _check_groups(checked["rollout", "group"], all_sizes["group"])
    floats = [x.dtype for x in columns.values() if isinstance(x, Tensor) and x.is_floating_point()]
    dtype = floats[0] if floats else torch.get_default_dtype()
    result: dict[str, Column] = {
        name: checked_column(name, value, all_sizes, device, dtype) for name, value in columns.items()
    }
    if "group.task" not in result:
        result["group.task"] = torch.arange(all_sizes["group"], device=device)
    if "rollout.index" not in result:
        result["rollout.index"] = occurrence(checked["rollout", "group"], all_sizes["group"])
    for name, relation in relations.items():
        check_relation(name, relation, all_sizes, device)
    return checked, all_sizes, result, dict(relations)


def checked_column(name: str, value: Any, sizes: Mapping[str, int], device: torch.device, dtype: torch.dtype) -> Column:
    """A column as a tensor or a tuple, of the right length, on the right device, with numbers that are numbers."""
    level, _, rest = name.partition(".")
    if not rest or level not in sizes:
        raise PodiumError(
            f"Column {name!r} must be named level.name with a level of the batch. {nearest(level, sizes)}"
        )
    column = _as_column(name, value, device, dtype)
    if len(column) != sizes[level]:
        raise PodiumError(f"Column {name!r} has {len(column)} values, but the batch has {sizes[level]} {level}s.")
    if isinstance(column, Tensor) and column.device != device:
        raise PodiumError(f"Column {name!r} is on {column.device}, the batch on {device}: move one with .to(...).")
    words = set(rest.split("[")[0].split("."))
    if words & FINITE:
        _check_finite(name, column)
    if words & BOOLEAN and not (isinstance(column, Tensor) and column.dtype == torch.bool):
        raise PodiumError(f"Column {name!r} holds {_kind(column)}; give True where a {level} is kept, else False.")
    return column


def _kind(column: Column) -> str:
    return str(column.dtype) if isinstance(column, Tensor) else "objects"


def _check_finite(name: str, column: Column) -> None:
    if not isinstance(column, Tensor) or not column.is_floating_point():
        raise PodiumError(f"Column {name!r} holds {_kind(column)}; give floating-point numbers (x.float()).")
    # A sum is finite only if every value is; the offending row is searched for only in the rare case.
    if not bool(column.detach().sum().isfinite()) and not bool(column.isfinite().all()):
        row = int((~column.isfinite()).reshape(len(column), -1).any(1).nonzero()[0])
        largest = (
            f" {column.dtype} ends at {torch.finfo(column.dtype).max:.1e}." if bool(column[row].isinf().any()) else ""
        )
        raise PodiumError(
            f"Column {name!r} is {column[row].tolist()} at {name.partition('.')[0]} {row}: "
            f"NaN and infinite values are refused.{largest}"
        )


def _as_column(name: str, value: Any, device: torch.device, dtype: torch.dtype) -> Column:
    enum = ENUMS.get(name)
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        value = [value]  # one value, for the batch as a whole
    if isinstance(value, Tensor):
        column = value if value.dim() else value.reshape(1)
    elif hasattr(value, "dtype") and value.dtype.kind in "biuf":  # a numpy array of numbers
        column = torch.as_tensor(value, device=device)
    else:
        items = tuple(value)
        if enum is not None:
            items = tuple(_member(name, enum, item) for item in items)
        if not items or not all(isinstance(item, (bool, int, float)) for item in items):
            return items
        floats = any(isinstance(item, float) for item in items)
        column = torch.tensor(items, dtype=dtype if floats else None, device=device)
    return column if enum is None else _as_members(name, enum, column)


def _member(name: str, enum: type[IntEnum], item: Any) -> Any:
    if isinstance(item, str) and item not in enum.__members__:
        raise PodiumError(f"Column {name!r} holds {item!r}. {nearest(item, enum.__members__)}")
    return int(enum[item]) if isinstance(item, str) else item


def _as_members(name: str, enum: type[IntEnum], column: Tensor) -> Tensor:
    integers = not column.is_floating_point() and column.dtype != torch.bool
    if not integers or (len(column) and not 0 <= int(column.min()) <= int(column.max()) < len(enum)):
        members = ", ".join(f"{member.name} ({int(member)})" for member in enum)
        raise PodiumError(f"Column {name!r} holds something else than {members}.")
    return column.to(torch.int8)


def _sizes(links: Links, announced: Mapping[str, int], device: torch.device) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for (child, parent), index in links.items():
        if index.dim() != 1 or index.dtype != torch.long:
            raise PodiumError(
                f"The link from {child} to {parent} must be a vector of int64, not {index.dtype} {tuple(index.shape)}."
            )
        if index.device != device:
            raise PodiumError(
                f"The link from {child} to {parent} is on {index.device}, the batch on {device}: "
                "move one with .to(...)."
            )
        if sizes.setdefault(child, len(index)) != len(index):
            raise PodiumError(f"The links of {child} have different lengths: {sizes[child]} and {len(index)}.")
    for (_, parent), index in links.items():
        if parent not in sizes:
            sizes[parent] = announced.get(parent, int(index.max()) + 1 if len(index) else 0)
    for level, size in announced.items():
        if level not in sizes | {"batch": 1}:
            raise PodiumError(f"There is no link for the level {level!r}. {nearest(level, sizes)}")
        if level != "batch" and sizes[level] != size:
            raise PodiumError(f"{size} {level}s were announced, but the links have {sizes[level]}.")
    return sizes | {"batch": 1}


def check_link(key: tuple[str, str], links: Mapping[tuple[str, str], Tensor], sizes: Mapping[str, int]) -> None:
    """Check that every child has a parent that exists, and that the elements of a rollout are in order."""
    (child, parent), index = key, links[key]
    if not len(index):
        return
    unordered = bool((index[1:] < index[:-1]).any())
    if unordered and "rollout" in _above(child, links) and child != "rollout":
        raise PodiumError(f"The {child}s must stand in the order of their {parent}s.")
    low, high = (int(index.min()), int(index.max())) if unordered else (int(index[0]), int(index[-1]))
    if low < 0 or high >= sizes[parent]:
        raise PodiumError(
            f"A {child} belongs to {parent} {low if low < 0 else high}, "
            f"but there are {sizes[parent]} {parent}s (0 to {sizes[parent] - 1})."
        )


def _above(level: str, links: Mapping[tuple[str, str], Tensor]) -> set[str]:
    """The level and all levels above it."""
    levels = [level]
    for lower in levels:
        levels += [b for a, b in links if a == lower and b not in levels]
    return set(levels)


def _check_ways_up(links: Links) -> None:
    """Check that links form no cycle, connect every level to the rollouts, and lead to one rollout by every path."""
    for child, parent in links:
        if child in _above(parent, links):
            raise PodiumError(f"The links form a circle: a {child} and a {parent} each belong to the other.")
        if "rollout" not in _above(child, links) and child not in _above("rollout", links):
            raise PodiumError(f"The level {child!r} is not joined to the rollouts: link it to one of their levels.")
    to_rollout: dict[str, Tensor] = {}
    for level in {child for child, _ in links}:
        for path in _paths(level, links):
            index = links[path[0], path[1]]
            for step in pairwise(path[1:]):
                index = links[step].index_select(0, index)
            if not torch.equal(to_rollout.setdefault(level, index), index):
                raise PodiumError(
                    f"The {level}s belong to different rollouts by {' → '.join(path)} and by another way."
                )


def _paths(level: str, links: Links) -> list[tuple[str, ...]]:
    """All paths from a level to the rollouts, if there is more than one."""
    paths: list[tuple[str, ...]] = [(level,)]
    complete = []
    for path in paths:
        if path[-1] == "rollout" and len(path) > 1:
            complete.append(path)
        paths += [(*path, b) for a, b in links if a == path[-1] and a != "rollout"]
    return complete if len(complete) > 1 else []


def _check_groups(index: Tensor, groups: int) -> None:
    missing = (torch.bincount(index, minlength=groups) == 0).nonzero()
    if len(missing):
        raise PodiumError(f"Group {int(missing[0])} has no rollouts: number the groups 0 to n − 1 without holes.")


def checked_segments(name: str, index: Tensor, up: Tensor, of: str, parent: str) -> tuple[Tensor, Tensor]:
    """The segments of a new level, numbered without gaps, and the parent of each; `up` is the parent of each `of`."""
    if len(index) != len(up):
        raise PodiumError(f"{len(index)} numbers of {name}s for {len(up)} {of}s.")
    index, size = compact(index)
    parents = Partition(index, size).agg.first(up)
    if not torch.equal(parents.index_select(0, index), up):
        raise PodiumError(
            f"A {name} crosses the border of a {parent}: number the {name}s over the whole batch, "
            f"so that no two {parent}s share one."
        )
    return index, parents


def check_relation(name: str, relation: Relation, sizes: Mapping[str, int], device: torch.device) -> None:
    """Check that a relation has a name of its own and joins existing elements, with finite columns of one length on
    the batch's device."""
    if not name.isidentifier() or name in sizes or name == "step":
        raise PodiumError(f"A relation cannot be named {name!r}: take a name without dots, such as 'pair'.")
    if relation.level not in sizes:
        raise PodiumError(f"Relation {name!r} joins {relation.level!r}. {nearest(relation.level, sizes)}")
    columns = {"left": relation.left, "right": relation.right, **relation.columns}
    lengths = {column: len(x) for column, x in columns.items()}
    if len(set(lengths.values())) > 1:
        raise PodiumError(f"Relation {name!r} has columns of different lengths: {lengths}.")
    for column, x in columns.items():
        if x.device != device:
            raise PodiumError(
                f"Relation {name!r}.{column} is on {x.device}, the batch on {device}: move one with .to(...)."
            )
        if x.is_floating_point() and not bool(x.detach().isfinite().all()):
            pair = int((~x.isfinite()).reshape(len(x), -1).any(1).nonzero()[0])
            raise PodiumError(
                f"Relation {name!r}.{column} is {x[pair].tolist()} at pair {pair}: NaN and infinite values are refused."
            )
    for side in (relation.left, relation.right):
        if len(side) and (int(side.min()) < 0 or int(side.max()) >= sizes[relation.level]):
            raise PodiumError(f"Relation {name!r} names a {relation.level} that does not exist.")
