"""Schedules: numbers that change over training, as values of fields.

    KL("k3", coefficient=Linear(0.1, 0.0, over=200))

The loop resolves `method.at(clock)` to plain numbers once per iteration; parts never see a schedule.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from podium.core.errors import PodiumError, within
from podium.core.value import Clock, Value

__all__ = [
    "Cosine",
    "Count",
    "Exponential",
    "Follow",
    "Linear",
    "Number",
    "Power",
    "Restarts",
    "Schedule",
    "Sigmoid",
    "Steps",
    "TwoPhases",
]


class Schedule(Value):
    """A number that depends on the clock."""

    def number(self, clock: Clock) -> float:
        raise NotImplementedError

    def extremes(self) -> tuple[float, ...]:
        """The smallest and largest values it can take, for checking ranges."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """The iteration from which on it no longer changes; 0: it may change at any time, or never does."""
        return 0


# A float, or a schedule that is resolved to one before any part is called: formulas may treat it as a number.
Number: TypeAlias = Any
# A whole number, or what is resolved to one before a run starts: a share of the run (`podium.core.shares`), or None.
Count: TypeAlias = Any


class Linear(Schedule):
    """From `start` to `end` in a straight line over `over` iterations, then constant."""

    start: float
    end: float
    over: Count  # iterations

    def __post_init__(self) -> None:
        within(self, "over", 1)

    @property
    def length(self) -> int:
        return int(self.over)

    def number(self, clock: Clock) -> float:
        share = min(clock.iteration / self.over, 1.0)
        return self.start + (self.end - self.start) * share

    def extremes(self) -> tuple[float, ...]:
        return (self.start, self.end)


class Cosine(Linear):
    """From `start` to `end` along half a cosine over `over` iterations, then constant."""

    def number(self, clock: Clock) -> float:
        share = min(clock.iteration / self.over, 1.0)
        return self.end + (self.start - self.end) * 0.5 * (1.0 + math.cos(math.pi * share))


class Exponential(Schedule):
    """Exponential decay: start · e^{−rate · iteration}."""

    start: float
    rate: float = 0.0

    def __post_init__(self) -> None:
        within(self, "rate", 0)

    def number(self, clock: Clock) -> float:
        return self.start * math.exp(-self.rate * clock.iteration)

    def extremes(self) -> tuple[float, ...]:
        return (self.start, 0.0) if self.rate else (self.start,)


class Power(Schedule):
    """Polynomial decay: start · (1 − x)^power, with x the share of the `over` iterations that is done; then 0."""

    start: float
    over: Count  # iterations
    power: float = 1.0

    def __post_init__(self) -> None:
        within(self, "over", 1)
        within(self, "power", 0, open_low=True)

    @property
    def length(self) -> int:
        return int(self.over)

    def number(self, clock: Clock) -> float:
        return self.start * (1.0 - min(clock.iteration / self.over, 1.0)) ** self.power

    def extremes(self) -> tuple[float, ...]:
        return (self.start, 0.0)


class Sigmoid(Schedule):
    """Sigmoid decay: start / (1 + e^{steepness (x − midpoint)}), x the share of the `over` iterations that is done."""

    start: float
    over: Count  # iterations
    midpoint: float = 0.5
    steepness: float = 10.0

    def __post_init__(self) -> None:
        within(self, "over", 1)
        within(self, "steepness", 0)

    @property
    def length(self) -> int:
        return int(self.over)

    def number(self, clock: Clock) -> float:
        x = min(clock.iteration / self.over, 1.0)
        # Beyond ±700 the exponential overflows, and the sigmoid is 0 or 1 to the last digit.
        return self.start / (1.0 + math.exp(min(max(self.steepness * (x - self.midpoint), -700.0), 700.0)))

    def extremes(self) -> tuple[float, ...]:
        return (self.start, 0.0)


class TwoPhases(Schedule):
    """Slow decay from 1 towards 0.8 over the first half of `over` iterations, then fast decay from 0.8 towards 0.

    1 − 0.2 (1 − e^{−2x}) with x the share of the first half that is done, then 0.8 e^{−3x} with that of the second.
    """

    over: Count = 150  # iterations

    def __post_init__(self) -> None:
        within(self, "over", 1)

    @property
    def length(self) -> int:
        return int(self.over)

    def number(self, clock: Clock) -> float:
        half, now = self.over // 2, min(max(clock.iteration, 0), self.over)
        if now <= half:
            return 1.0 - 0.2 * (1.0 - math.exp(-2.0 * now / max(half, 1)))
        return 0.8 * math.exp(-3.0 * (now - half) / (self.over - half))

    def extremes(self) -> tuple[float, ...]:
        return (0.8 * math.exp(-3.0), 1.0)


class Restarts(Schedule):
    """Cosine with warm restarts: linear from `start` to `peak` over `warmup` iterations, then half cosines to `trough`.

    Each half cosine goes from `peak` to `trough` over `period` iterations.
    """

    start: float
    peak: float
    trough: float
    warmup: Count  # iterations
    period: Count  # iterations

    def __post_init__(self) -> None:
        within(self, "warmup", 0)
        within(self, "period", 1)

    def number(self, clock: Clock) -> float:
        if clock.iteration < self.warmup:
            return self.start + (self.peak - self.start) * (clock.iteration + 1) / self.warmup
        place = (clock.iteration - self.warmup) % self.period / self.period
        return self.trough + (self.peak - self.trough) * 0.5 * (1.0 + math.cos(math.pi * place))

    def extremes(self) -> tuple[float, ...]:
        return (self.start, self.peak, self.trough)


class Steps(Schedule):
    """Piecewise constant: `values[k]` from iteration `starts[k]` on; `starts` begins with 0 and never decreases."""

    values: tuple[float, ...]
    starts: tuple[Count, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.starts) or not self.values or self.starts[0] != 0:
            raise PodiumError(
                f"Steps needs one start for each value, the first 0; got {self.values} and {self.starts}."
            )
        numbers = [start for start in self.starts if isinstance(start, int)]  # others are shares of the run
        if numbers != sorted(numbers):
            raise PodiumError(f"Steps.starts = {self.starts} must not decrease.")

    @property
    def length(self) -> int:
        return int(self.starts[-1])

    def number(self, clock: Clock) -> float:
        return [v for v, start in zip(self.values, self.starts, strict=True) if start <= clock.iteration][-1]

    def extremes(self) -> tuple[float, ...]:
        return self.values


class Follow(Schedule):
    """A scalar that a memory exposes: scale · value + offset, clamped to [low, high]."""

    name: str  # of the scalar
    scale: float = 1.0
    offset: float = 0.0
    low: float = float("-inf")
    high: float = float("inf")
    initial: float = 0.0  # before the memory has a value

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise PodiumError(f"Follow({self.name!r}) is held between {self.low} and {self.high}: low must be below.")

    def number(self, clock: Clock) -> float:
        value = clock.values.get(self.name, self.initial)
        return min(max(self.scale * value + self.offset, self.low), self.high)

    def extremes(self) -> tuple[float, ...]:
        return tuple(x for x in (self.low, self.high) if math.isfinite(x))
