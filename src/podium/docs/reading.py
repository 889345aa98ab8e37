"""A method as data: its settings with their paths, what it needs from outside, how it differs from another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from podium.core.memory import Memory
from podium.core.part import Part
from podium.core.schedule import Schedule
from podium.core.signal import Signal
from podium.core.value import Value, opening
from podium.docs.catalogue_text import MethodText, PartText, SettingText
from podium.docs.comments import field_comments
from podium.method import LISTS, STAGES, Method
from podium.method.check import ALWAYS, met

__all__ = [
    "Difference",
    "MethodNeeds",
    "Setting",
    "changed_settings",
    "differences",
    "held",
    "method_text",
    "needs",
    "nested",
    "settings_of",
]

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
    """What a method reads that none of its parts writes."""

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
    """All settings of a part, its own before those of its base classes, and those of the values inside it."""
    settings = []
    for name, inner, usual, comment in _fields(value, default):
        where = f"{path}.{name}"
        if nested(inner):
            settings += settings_of(inner, where, usual)
        else:
            settings.append(Setting(where, inner, inner != usual, comment))
    return settings


def changed_settings(value: Value, path: str, default: Any = None) -> list[Setting]:
    """The settings that differ from the defaults; a value whose class is not that of the default is one setting."""
    settings = []
    for name, inner, usual, comment in _fields(value, default):
        if nested(inner) and type(inner) is type(usual):
            settings += changed_settings(inner, f"{path}.{name}", usual)
        elif inner != usual:
            settings.append(Setting(f"{path}.{name}", inner, True, comment))
    return settings


def _fields(value: Value, default: Any) -> Iterator[tuple[str, Any, Any, str]]:
    """(name, value, default, comment) of each field, those of the class before those of its bases."""
    comments = field_comments(type(value))
    bases = [vars(base).get("__annotations__", {}) for base in type(value).__mro__]
    fields = dataclasses.fields(value)
    for field in sorted(fields, key=lambda f: next(i for i, names in enumerate(bases) if f.name in names)):
        usual = field.default if type(default) is not type(value) else getattr(default, field.name)
        yield field.name, getattr(value, field.name), usual, comments.get(field.name, "")


def nested(value: Any) -> bool:
    """Whether a value is shown by the settings inside it. A schedule stands for a number, so it is not."""
    return isinstance(value, Value) and not isinstance(value, Schedule)


def method_text(method: Method) -> MethodText:
    """What `podium methods show` prints of a method beside its entry in the catalogue."""
    if list(method.leaves()) != [method]:  # several in turn
        return MethodText(description=method.describe())
    parts = tuple(
        PartText(
            path,
            type(value).__name__,
            opening(value),
            _texts(changed_settings(value, path)),
            _texts(settings_of(value, path)),
        )
        for path, value in held(method)
    )
    need = needs(method)
    rows = {
        "columns": (*need.always, *need.columns),
        "signals": tuple(repr(signal) for signal in need.signals),
        "roles": tuple(role.name for role in method.roles),
        "memories": tuple(type(memory).__name__ for memory in method.memories),
    }
    return MethodText(parts, {what: list(names) for what, names in rows.items() if names})


def _texts(settings: list[Setting]) -> tuple[SettingText, ...]:
    return tuple(SettingText(s.path, repr(s.value), s.comment) for s in settings)


def needs(method: Method) -> MethodNeeds:
    """What the world, the policy and the roles must provide, in the order in which it is read."""
    written: set[str] = {name for memory in method.memories for name in memory.provides}
    columns: dict[str, None] = {}
    signals: dict[str, Signal] = {}
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    for part in readers:
        for need in part.needs:
            if isinstance(need, Signal):
                earlier = signals.get(need.column)
                signals[need.column] = need if earlier is None or need.grad else earlier
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
    changes: list[Difference] = []
    for path in sorted({**a, **b}, key=lambda path: PLACES.index(path.partition(".")[0])):
        changes += _compared(path, a.get(path), b.get(path))
    return changes


def _compared(path: str, left: Any, right: Any) -> list[Difference]:
    if left == right:
        return []
    if not nested(left) or type(left) is not type(right):
        return [Difference(path, left, right)]
    changes: list[Difference] = []
    for name in left.field_names():
        changes += _compared(f"{path}.{name}", getattr(left, name), getattr(right, name))
    return changes


def _by_path(method: Method) -> dict[str, Value]:
    """Parts by path; roles by their name, since a method may have several."""
    values: dict[str, Value] = {}
    for path, value in held(method):
        name = f"roles.{value.settings()['name']}" if path.startswith("roles.") else path
        values[name if name not in values else f"{name} (another)"] = value
    return values
