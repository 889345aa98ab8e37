"""A method read as data: its settings with their paths, what it needs from outside, how it differs from another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from podium.core.memory import Memory
from podium.core.part import Part
from podium.core.schedule import Schedule
from podium.core.signal import Signal
from podium.core.value import Value
from podium.docs.comments import field_comments
from podium.method import LISTS, STAGES, Method
from podium.method.check import ALWAYS, met

__all__ = ["Difference", "MethodNeeds", "Setting", "differences", "held", "needs", "nested", "settings_of"]


PLACES = (*STAGES, "memories", "roles")


@dataclass(frozen=True)
class Setting:
    """One field of a part, under the path by which `method.set` and `--set` change it."""

    path: str
    value: Any
    changed: bool  # whether the value differs from the default of its class
    comment: str


@dataclass(frozen=True)
class MethodNeeds:
    """What a method reads that none of its own parts writes."""

    columns: tuple[str, ...]  # from the world, or from whoever makes the batch
    signals: tuple[Signal, ...]  # from the policy or a role
    always: tuple[str, ...]  # columns that every batch of rollouts with rewards has


@dataclass(frozen=True)
class Difference:
    """A setting or a part in which two methods differ; None where one of them has nothing."""

    path: str
    left: Any
    right: Any


def held(method: Method) -> Iterator[tuple[str, Value]]:
    """(path, value) of all parts, memories and roles: `advantage`, `objective.KL`, `memories.SuccessTracker`, …"""
    for stage in PLACES:
        values = getattr(method, stage)
        if stage in (*LISTS, "memories", "roles"):
            classes = [type(value).__name__ for value in values]
            for place, (name, value) in enumerate(zip(classes, values, strict=True)):
                number = f"[{classes[:place].count(name)}]" if classes.count(name) > 1 else ""
                yield f"{stage}.{name}{number}", value
        elif values is not None:
            yield stage, values


def settings_of(value: Value, path: str, default: Any = None) -> list[Setting]:
    """The settings of a part, its own before those of its base classes, and those of the values inside it."""
    found = []
    comments = field_comments(type(value))
    bases = [vars(base).get("__annotations__", {}) for base in type(value).__mro__]
    fields = dataclasses.fields(value)
    for field in sorted(fields, key=lambda f: next(i for i, names in enumerate(bases) if f.name in names)):
        inner, where = getattr(value, field.name), f"{path}.{field.name}"
        usual = field.default if type(default) is not type(value) else getattr(default, field.name)
        if nested(inner):
            found += settings_of(inner, where, usual)
        else:
            found.append(Setting(where, inner, inner != usual, comments.get(field.name, "")))
    return found


def nested(value: Any) -> bool:
    """Whether a value is shown by its own settings. A schedule stands for a number, so it is not."""
    return isinstance(value, Value) and not isinstance(value, Schedule)


def needs(method: Method) -> MethodNeeds:
    """What must be given from outside, in the order in which it is read."""
    written: set[str] = {name for memory in method.memories for name in memory.provides}
    columns: dict[str, None] = {}
    signals: dict[str, Signal] = {}
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    for part in readers:
        for need in part.needs:
            if isinstance(need, Signal):
                known = signals.get(need.column)
                signals[need.column] = need if known is None or need.grad else known
            elif not met(need, written):
                columns[need] = None
        written |= set(part.provides)
    return MethodNeeds(
        columns=tuple(c for c in columns if c not in ALWAYS),
        signals=tuple(signals.values()),
        always=tuple(c for c in columns if c in ALWAYS),
    )


def differences(left: Method, right: Method) -> list[Difference]:
    """Where `right` differs from `left`: settings of parts that both have, and whole parts that one has."""
    a, b = _by_path(left), _by_path(right)
    found: list[Difference] = []
    for path in sorted({**a, **b}, key=lambda path: PLACES.index(path.partition(".")[0])):
        found += _compared(path, a.get(path), b.get(path))
    return found


def _compared(path: str, left: Any, right: Any) -> list[Difference]:
    if left == right:
        return []
    if not nested(left) or type(left) is not type(right):
        return [Difference(path, left, right)]
    found: list[Difference] = []
    for name in left.field_names():
        found += _compared(f"{path}.{name}", getattr(left, name), getattr(right, name))
    return found


def _by_path(method: Method) -> dict[str, Value]:
    """Parts by path; roles by their own name, since a method may have several."""
    found: dict[str, Value] = {}
    for path, value in held(method):
        name = f"roles.{value.settings()['name']}" if path.startswith("roles.") else path
        found[name if name not in found else f"{name} (another)"] = value
    return found
