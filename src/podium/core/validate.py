"""The door of the batch: everything that comes in is checked once, here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import ENUMS, FINITE, Column, Relation
from podium.core.errors import PodiumError, nearest
from podium.core.order import position
from podium.core.partition import Partition

__all__ = ["checked_column", "validated"]

Links = dict[tuple[str, str], Tensor]


def validated(
    links: Mapping[tuple[str, str], Tensor],
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
    for (child, parent), index in checked.items():
        _check_link(child, parent, index, all_sizes)
    _check_groups(checked["rollout", "group"], all_sizes["group"])
    result: dict[str, Column] = {
        name: checked_column(name, value, all_sizes, device) for name, value in columns.items()
    }
    if "group.task" not in result:
        result["group.task"] = torch.arange(all_sizes["group"], device=device)
    if "rollout.index" not in result:
        result["rollout.index"] = _occurrence(checked["rollout", "group"], all_sizes["group"])
    for name, relation in relations.items():
        _check_relation(name, relation, all_sizes)
    return checked, all_sizes, result, dict(relations)


def checked_column(name: str, value: Any, sizes: Mapping[str, int], device: torch.device) -> Column:
    """A column as a tensor or a tuple, of the right length, on the right device, with numbers that are numbers."""
    level, _, rest = name.partition(".")
    if not rest or level not in sizes:
        raise PodiumError(
            f"Column {name!r} must be named level.name with a level of the batch. {nearest(level, sizes)}"
        )
    column = _as_column(name, value, device)
    if len(column) != sizes[level]:
        raise PodiumError(f"Column {name!r} has {len(column)} values, but the batch has {sizes[level]} {level}s.")
    if not isinstance(column, Tensor):
        return column
    if column.device != device:
        raise PodiumError(f"Column {name!r} is on {column.device}, the batch on {device}: move one with .to(...).")
    if rest.split("[")[0].split(".")[-1] in FINITE:
        if not column.is_floating_point():
            raise PodiumError(f"Column {name!r} is {column.dtype}; give floating-point numbers (x.float()).")
        finite = column.isfinite()
        if not bool(finite.all()):
            row = int((~finite).reshape(len(column), -1).any(1).nonzero()[0])
            raise PodiumError(
                f"Column {name!r} is {column[row].tolist()} at {level} {row}: NaN or infinite values are refused."
            )
    return column


def _as_column(name: str, value: Any, device: torch.device) -> Column:
    enum = ENUMS.get(name)
    if isinstance(value, Tensor):
        return value if value.dim() else value.reshape(1)
    if hasattr(value, "dtype") and value.dtype.kind in "biuf":  # a numpy array of numbers
        return torch.as_tensor(value, device=device)
    items = tuple(value)
    if enum is not None:
        return torch.tensor([_member(name, enum, item) for item in items], dtype=torch.int8, device=device)
    if items and all(isinstance(item, (bool, int, float)) for item in items):
        return torch.tensor(items, device=device)
    return items


def _member(name: str, enum: type[IntEnum], item: Any) -> int:
    if isinstance(item, str):
        if item not in enum.__members__:
            raise PodiumError(f"Column {name!r} holds {item!r}. {nearest(item, enum.__members__)}")
        return int(enum[item])
    return int(item)


def _sizes(links: Links, given: Mapping[str, int], device: torch.device) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for (child, _), index in links.items():
        if index.dim() != 1 or index.dtype != torch.long:
            raise PodiumError(f"The link of {child} must be a vector of int64, not {tuple(index.shape)} {index.dtype}.")
        if index.device != device:
            raise PodiumError(f"The link of {child} is on {index.device}, the batch on {device}.")
        if sizes.setdefault(child, index.numel()) != index.numel():
            raise PodiumError(f"The links of {child} have different lengths: {sizes[child]} and {index.numel()}.")
    for (_, parent), index in links.items():
        if parent not in sizes:
            sizes[parent] = given.get(parent, int(index.max()) + 1 if index.numel() else 0)
    return sizes | {"batch": 1}


def _check_link(child: str, parent: str, index: Tensor, sizes: Mapping[str, int]) -> None:
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= sizes[parent]):
        raise PodiumError(
            f"A {child} belongs to {parent} {int(index.max() if index.min() >= 0 else index.min())}, "
            f"but there are {sizes[parent]} {parent}s (0 to {sizes[parent] - 1})."
        )
    if child != "rollout" and index.numel() and bool((index.diff() < 0).any()):
        raise PodiumError(f"The {child}s must stand in the order of their {parent}s.")


def _check_groups(index: Tensor, groups: int) -> None:
    missing = (torch.bincount(index, minlength=groups) == 0).nonzero()
    if missing.numel():
        raise PodiumError(f"Group {int(missing[0])} has no rollouts: number the groups 0 to n − 1 without holes.")


def _occurrence(index: Tensor, groups: int) -> Tensor:
    """The place of each rollout among those of its group."""
    by_group = torch.argsort(index, stable=True)
    place = position(Partition(index[by_group], groups))
    return torch.empty_like(place).index_copy(0, by_group, place)


def _check_relation(name: str, relation: Relation, sizes: Mapping[str, int]) -> None:
    lengths = {side: getattr(relation, side).numel() for side in ("left", "right")}
    lengths |= {column: len(x) for column, x in relation.columns.items()}
    if len(set(lengths.values())) > 1:
        raise PodiumError(f"Relation {name!r} has columns of different lengths: {lengths}.")
    for side in ("left", "right"):
        index = getattr(relation, side)
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= sizes.get(relation.level, 0)):
            raise PodiumError(f"Relation {name!r}.{side} names a {relation.level} that does not exist.")
