"""When a phase ends: after a number of iterations, when a metric reaches a goal, or when it stops improving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podium.core.errors import PodiumError, nearest, within
from podium.core.memory import State
from podium.core.schedule import Count
from podium.core.value import Value

__all__ = ["Iterations", "Plateau", "Reached", "Until"]


class Until(Value):
    """The condition that ends a phase, evaluated after each of its iterations on the metrics so far."""

    def start(self) -> State:
        """The state at the start of the phase."""
        return {}

    def watch(self, state: State, values: Mapping[str, Any]) -> tuple[State, bool]:
        """The state after an iteration with these metrics, and whether the phase is over."""
        raise NotImplementedError


class Iterations(Until):
    """After `count` iterations."""

    count: Count

    def __post_init__(self) -> None:
        within(self, "count", 1)

    def start(self) -> State:
        return {"done": 0}

    def watch(self, state: State, values: Mapping[str, Any]) -> tuple[State, bool]:
        done = state["done"] + 1
        return {"done": done}, done >= self.count


class _Measured(Until):
    """A condition on a metric of the run (`reward`, `eval.pass@1`) or on a scalar that a memory exposes."""

    name: str  # of the metric

    def measure(self, state: State, value: float) -> tuple[State, bool]:
        raise NotImplementedError

    def watch(self, state: State, values: Mapping[str, Any]) -> tuple[State, bool]:
        if self.name in values:
            return self.measure(state, float(values[self.name]))
        if self.name.startswith("eval."):  # not measured in every iteration
            return state, False
        raise PodiumError(
            f"A phase ends by {self.name!r}, which the run does not measure. {nearest(self.name, values)}"
        )


class Reached(_Measured):
    """When a metric is at least `above`, or at most `below`, `times` times in a row."""

    above: float | None = None  # give this
    below: float | None = None  # or this
    times: int = 1  # consecutive measurements

    def __post_init__(self) -> None:
        within(self, "times", 1)
        if (self.above is None) == (self.below is None):
            raise PodiumError(f"Reached({self.name!r}) needs one goal: above=NUMBER or below=NUMBER.")

    def start(self) -> State:
        return {"row": 0}

    def measure(self, state: State, value: float) -> tuple[State, bool]:
        reached = value >= self.above if self.above is not None else value <= self.below  # type: ignore[operator]
        row = state["row"] + 1 if reached else 0
        return {"row": row}, row >= self.times


class Plateau(_Measured):
    """When a metric has not improved on its best by more than `by` for `patience` measurements."""

    patience: int = 5  # measurements, at least 1
    by: float = 0.0  # at least 0
    falling: bool = False  # whether lower is better

    def __post_init__(self) -> None:
        within(self, "patience", 1)
        within(self, "by", 0)

    def start(self) -> State:
        return {"best": None, "since": 0}

    def measure(self, state: State, value: float) -> tuple[State, bool]:
        value = -value if self.falling else value
        if state["best"] is None or value > state["best"] + self.by:
            return {"best": value, "since": 0}, False
        since = state["since"] + 1
        return {"best": state["best"], "since": since}, since >= self.patience
