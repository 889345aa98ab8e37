"""Numbers relative to a run: a length as a share of `max_tokens`, a time as a share of the iterations.

    Overlong(limit=ShareOfTokens(1.0), buffer=ShareOfTokens(0.2))
    Linear(0.1, 0.0, over=ShareOfRun(1.0))

A constant that its authors chose for answers of 8,000 tokens would switch a mechanism off on answers of forty. `scaled`
turns shares into numbers once, before a run starts: no part ever sees one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from podium.core.errors import PodiumError, within
from podium.core.schedule import Schedule
from podium.core.value import Clock, Value

__all__ = ["RelativeNumber", "ShareOfRun", "ShareOfTokens", "scaled"]

V = TypeVar("V")


class RelativeNumber(Schedule):
    """A share of something that only the run knows."""

    of: ClassVar[str] = ""  # what it is a share of, in words
    share: float  # above 0

    def __post_init__(self) -> None:
        within(self, "share", 0, open_low=True)

    def number(self, clock: Clock) -> float:
        raise PodiumError(f"{self!r} is a share of {self.of}, which only a run knows: give a number, or train.")

    def extremes(self) -> tuple[float, ...]:
        return ()  # whatever the run says; ranges are checked once the number is known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.share!r})"


class ShareOfTokens(RelativeNumber):
    """A share of `max_tokens`, the limit of a turn, as a whole number of at least 1."""

    of = "max_tokens"


class ShareOfRun(RelativeNumber):
    """A share of the iterations of the run, as a whole number of at least 1."""

    of = "iterations"


def scaled(value: V, totals: Mapping[str, int]) -> V:
    """The same value with every share, at any depth, as a number; `totals` by the `of` of each kind of share. Shares of
    what is not among them stay as they are."""
    whole: V = _scaled(value, totals)
    return whole


def _scaled(value: Any, totals: Mapping[str, int]) -> Any:
    if isinstance(value, RelativeNumber):
        return max(round(value.share * totals[value.of]), 1) if value.of in totals else value
    if isinstance(value, tuple):
        new = tuple(_scaled(item, totals) for item in value)
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    if not isinstance(value, Value):
        return value
    changes = {name: (old, _scaled(old, totals)) for name, old in value.settings().items()}
    changes = {name: new for name, (old, new) in changes.items() if new is not old}
    return value.replace(**changes) if changes else value
