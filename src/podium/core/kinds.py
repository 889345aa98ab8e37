"""Type checks of settings: a value that does not fit the annotation of its field is refused on construction."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from podium.core.errors import PodiumError

__all__ = ["check_kinds"]

WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "text", NoneType: "None"}


def check_kinds(owner: Any, names: Iterable[str]) -> None:
    """Refuse a value of the wrong type in these fields; a field's default is always accepted."""
    fields = owner.__dataclass_fields__
    for name in names:
        value, kind = getattr(owner, name), _kinds(owner.__class__)[name]
        if value is not fields[name].default and not _fits(value, kind):
            raise PodiumError(f"{type(owner).__name__}.{name} = {value!r} must be {_words(kind)}.")


@functools.cache
def _kinds(cls: type) -> dict[str, Any]:
    """The annotation of each field as a type; Any where it names something that does not exist at run time."""
    kinds: dict[str, Any] = {}
    for f in dataclasses.fields(cls):
        kinds[f.name] = f.type
        if isinstance(f.type, str):
            maker = next(c for c in cls.__mro__ if f.name in inspect.get_annotations(c))
            names = vars(sys.modules[maker.__module__]) if maker.__module__ in sys.modules else {}
            try:
                # To type checkers a Number or a Count is Any; here it must be one.
                kinds[f.name] = eval(f.type, dict(names), {"Number": float, "Count": int})
            except Exception:
                kinds[f.name] = Any
    return kinds


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, k) for k in inner)
    if origin is tuple and isinstance(value, tuple):
        wanted = inner[:1] * len(value) if inner[-1:] == (...,) else inner
        return len(value) == len(wanted) and all(map(_fits, value, wanted))
    if origin is tuple or kind is None or kind is NoneType:
        return origin is not tuple and value is None
    if kind in (float, int):
        number = isinstance(value, Real if kind is float else Integral) and not isinstance(value, bool)
        return number or callable(getattr(value, "number", None))  # a schedule
    if kind in (bool, str) or (isinstance(kind, type) and hasattr(kind, "__dataclass_fields__")):
        return isinstance(value, kind)
    return True


def _words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        *others, last = map(_words, inner)
        return f"{', '.join(others)} or {last}"
    if origin is tuple:
        plain = ", each ".join(["a list", _words(inner[0])])
        return plain if inner[-1:] == (...,) else f"a list of {len(inner)}"
    if kind in WORDS:
        return WORDS[kind]
    names = [kind.__name__, *(c.__name__ for c in kind.__subclasses__() if not c.__name__.startswith("_"))]
    such = f" ({', '.join(names[1:4])}{', …' if names[4:] else ''})" if names[1:] else ""
    return f"{'an' if names[0][0] in 'AEIO' else 'a'} {names[0]}{such}"
