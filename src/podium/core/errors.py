"""Errors for people: what is wrong, where, and what to do."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterable
from functools import cache

from podium.core.printable import printable

__all__ = ["PodiumError", "Unfinished", "nearest", "one_of", "within"]


class PodiumError(ValueError):
    """Input that Podium refuses. The message gives the reason and the remedy, and is safe to print even if it quotes a
    file or an error of a world."""

    exit_code = 2  # of the command

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class Unfinished(PodiumError):
    """Work that the system has interrupted and that can be resumed."""

    exit_code = os.EX_TEMPFAIL  # 75: try again later


def nearest(name: str, options: Iterable[str]) -> str:
    """A sentence that suggests what `name` was probably meant to be, or else lists the options."""
    names = sorted(set(options))
    if not names:
        return "None are known."
    return _suggestion(name, names) or f"Known: {', '.join(names[:20])}{', …' if len(names) > 20 else '.'}"


def _suggestion(name: str, options: Iterable[str]) -> str:
    """A sentence with the options that are spelt almost like `name`, in any case; empty if there are none."""
    by_lower_case = {option.lower(): option for option in options}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0.5)
    return "Did you mean " + " or ".join(repr(by_lower_case[c]) for c in close) + "?" if close else ""


def one_of(owner: object, field: str, options: Iterable[str]) -> None:
    """Check that a text field holds one of `options`."""
    value = getattr(owner, field)
    options = list(options)
    if value not in options:
        listed = f"{type(owner).__name__}.{field} = {value!r} is not one of {', '.join(map(repr, options))}."
        raise PodiumError(f"{listed} {_suggestion(str(value), options)}".rstrip())


@cache
def _whole_fields(owner: type) -> set[str]:
    return {f.name for f in dataclasses.fields(owner) if f.type in ("int", "Count", int)}


def within(
    owner: object,
    field: str,
    low: float = float("-inf"),
    high: float = float("inf"),
    *,
    open_low: bool = False,
    optional: bool = False,
    column: bool = False,
) -> None:
    """Check that a numeric field lies in [low, high] (or (low, high]); schedules are checked at their extremes.

    `optional` allows None, `column` the name of a column that holds the value. A field declared `int` must be whole.
    """
    value = getattr(owner, field)
    if (value is None and optional) or (isinstance(value, str) and column):
        return
    name = f"{type(owner).__name__}.{field} = {value!r}"
    whole = field in _whole_fields(type(owner))  # type: ignore[arg-type]
    extremes = getattr(value, "extremes", None)
    for number in extremes() if callable(extremes) else (value,):
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise PodiumError(f"{name} must be a number.")
        if whole and not isinstance(number, int):
            raise PodiumError(f"{name} must be a whole number.")
        if not (low < number if open_low else low <= number) or not number <= high:
            raise PodiumError(f"{name} is out of range {'(' if open_low else '['}{low:g}, {high:g}].")
