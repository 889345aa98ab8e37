"""Values: frozen settings that print as code, compare by value, and may hold schedules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, dataclass_transform

from podium.core.errors import PodiumError, nearest

__all__ = ["REGISTRY", "Clock", "Value"]

# Every public value class of Podium by name: what YAML may mention without an import path.
REGISTRY: dict[str, type[Value]] = {}


@dataclass(frozen=True)
class Clock:
    """Where the training stands: the iteration, and the scalars that memories expose to schedules."""

    iteration: int = 0
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Value:
    """Base of parts, clips, schedules, …: subclasses are frozen dataclasses without having to say so."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, repr=False)(cls)
        if cls.__module__.startswith("podium.") and not cls.__name__.startswith("_"):
            if cls.__name__ in REGISTRY and REGISTRY[cls.__name__].__module__ != cls.__module__:
                raise TypeError(f"Two values are named {cls.__name__}: {REGISTRY[cls.__name__]} and {cls}.")
            REGISTRY[cls.__name__] = cls

    @classmethod
    def field_names(cls) -> list[str]:
        return [f.name for f in dataclasses.fields(cls)]

    def replace(self, **changes: Any) -> Self:
        """The same value with some fields changed; a misspelt field gets its nearest name."""
        known = self.field_names()
        for name in changes:
            if name not in known:
                raise PodiumError(f"{type(self).__name__} has no setting {name!r}. {nearest(name, known)}")
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def at(self, clock: Clock) -> Self:
        """The same value with every schedule resolved to the number it has at `clock`."""
        changes = {}
        for name in self.field_names():
            old = getattr(self, name)
            new = _resolve(old, clock)
            if new is not old:
                changes[name] = new
        return dataclasses.replace(self, **changes) if changes else self  # type: ignore[type-var]

    def settings(self) -> dict[str, Any]:
        """Field name → value, in order."""
        return {name: getattr(self, name) for name in self.field_names()}

    def __repr__(self) -> str:
        shown = []
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
            if value != default:
                shown.append(f"{f.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _resolve(value: Any, clock: Clock) -> Any:
    number = getattr(value, "number", None)
    if callable(number):  # a schedule
        return number(clock)
    if isinstance(value, Value):
        return value.at(clock)
    if isinstance(value, tuple):
        new = tuple(_resolve(v, clock) for v in value)
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    return value
