"""Values: frozen settings that print as code, compare by value, and may hold schedules."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, dataclass_transform

from podium.core.errors import PodiumError, nearest
from podium.core.kinds import check_kinds

__all__ = ["REGISTRY", "Clock", "Value", "check_settings", "opening"]

# Every public value class of Podium by name: what YAML may mention without an import path.
REGISTRY: dict[str, type[Value]] = {}


@dataclass(frozen=True)
class Clock:
    """The point in training: the iteration, the scalars that memories expose, and the progress of phases."""

    iteration: int = 0
    values: Mapping[str, float] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Value:
    """Base of parts, clips, schedules, …: every subclass is made a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, repr=False)(cls)
        cls.__init__ = _checked_init(cls.__init__)  # type: ignore[method-assign]
        if cls.__module__.startswith("podium.") and not cls.__name__.startswith("_"):
            if cls.__name__ in REGISTRY and REGISTRY[cls.__name__].__module__ != cls.__module__:
                raise TypeError(f"Two values are named {cls.__name__}: {REGISTRY[cls.__name__]} and {cls}.")
            REGISTRY[cls.__name__] = cls

    @classmethod
    def field_names(cls) -> list[str]:
        return [f.name for f in dataclasses.fields(cls)]

    def replace(self, **changes: Any) -> Self:
        """The same value with some fields changed."""
        check_settings(type(self), changes)
        return dataclasses.replace(self, **changes)

    def at(self, clock: Clock) -> Self:
        """The same value with every schedule resolved to the number it has at `clock`."""
        changes = {}
        for name in self.field_names():
            old = getattr(self, name)
            new = _resolve(old, clock)
            if new is not old:
                changes[name] = new
        return dataclasses.replace(self, **changes) if changes else self

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


def opening(value: Value) -> str:
    """The beginning of a value's docstring as one line: up to the first line that ends a sentence."""
    lines: list[str] = []
    for line in (inspect.getdoc(value) or "").splitlines():
        if not line:
            break
        lines.append(line.strip())
        if line.endswith((".", ":")):
            break
    return " ".join(lines)


def check_settings(cls: type[Value], names: Iterable[str], owner: str = "") -> None:
    """Refuse names that are no settings of a class; the message suggests others, also those of the values it holds.

    `owner` is the path of the value, where it has one.
    """
    fields = cls.field_names()
    for name in names:
        if name not in fields:
            held = {f.name: f.default for f in dataclasses.fields(cls) if isinstance(f.default, Value)}
            path = f"{owner}." if owner else ""
            inner = [f"{path}{field}.{name}" for field, value in held.items() if name in value.field_names()]
            hint = f"Did you mean {' or '.join(map(repr, inner))}?" if inner else nearest(name, fields)
            raise PodiumError(f"{cls.__name__} has no setting {name!r}. {hint}")


def _checked_init(init: Callable[..., None]) -> Callable[..., None]:
    """The constructor of a dataclass that suggests names for misspelt fields, checks types, and makes lists tuples."""

    @functools.wraps(init)
    def checked(self: Value, *args: Any, **kwargs: Any) -> None:
        check_settings(type(self), kwargs)
        names = [*self.field_names()[: len(args)], *kwargs]
        try:
            init(self, *map(_frozen, args), **{name: _frozen(value) for name, value in kwargs.items()})
        except (TypeError, AttributeError):  # __post_init__ may have failed on a value of the wrong type
            check_kinds(self, [name for name in names if name in vars(self)])
            raise
        check_kinds(self, names)

    return checked


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


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
