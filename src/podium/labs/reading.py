"""What is read off an experiment: numbers with intervals over elements and seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.analysis import paired_models as contrast
from podium.analysis.paired_models import Tally
from podium.evaluation.resample import Array, mean

__all__ = ["Logged", "Mean", "PassAt", "Reading", "RunReading", "Share", "Snapshot", "counted"]


@dataclass(frozen=True)
class Snapshot:
    """A policy at some moment of its training."""

    iteration: int
    tokens: int  # sampled so far
    tally: Tally  # on the held-out tasks
    logged: Mapping[str, float]  # the metrics of training, averaged since the point before

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Snapshot:
        return cls(**{**data, "tally": Tally(**data["tally"])})

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "tally": self.tally.as_dict()}


class Reading:
    """What to make of the sums of columns."""

    bounds: tuple[float, float] = (-math.inf, math.inf)  # within which it always lies

    def value(self, sums: Array) -> Array:
        """[draw] from sums [draw, column]."""
        return mean(sums)


class RunReading(Reading):
    """A reading of a run at some point of its training, beside the point before it began."""

    def label(self, samples: int) -> str:
        raise NotImplementedError

    def columns(self, base: Snapshot, now: Snapshot) -> Array | None:
        """[task, column]; None where a point has no such thing."""
        raise NotImplementedError


@dataclass(frozen=True)
class PassAt(RunReading):
    """pass@k, for as many tries as there are samples where k is None."""

    bounds = (0.0, 1.0)
    k: int | None = None

    def label(self, samples: int) -> str:
        return f"pass@{self.k or samples}"

    def columns(self, base: Snapshot, now: Snapshot) -> Array:
        return counted(now.tally.passed(self.k or now.tally.samples))


@dataclass(frozen=True)
class Mean(RunReading):
    """A mean over tasks: token_entropy, answer_entropy or length."""

    bounds = (0.0, math.inf)
    name: str
    unit: str = ""

    def label(self, samples: int) -> str:
        return f"{self.name.replace('_', ' ')}{f' ({self.unit})' if self.unit else ''}"

    def columns(self, base: Snapshot, now: Snapshot) -> Array:
        return counted(getattr(now.tally, self.name))


@dataclass(frozen=True)
class Share(RunReading):
    """A share of what either model solves: retention, discovery, dynamic_score, net_change; of tasks or solutions."""

    bounds = (-1.0, 1.0)
    name: str
    solutions: bool = False

    def label(self, samples: int) -> str:
        return f"{'solution ' if self.solutions else ''}{self.name.replace('_', ' ')}@{samples}"

    def columns(self, base: Snapshot, now: Snapshot) -> Array:
        return contrast.kinds(base.tally, now.tally, solutions=self.solutions)

    def value(self, sums: Array) -> Array:
        return contrast.shares(self.name, sums)


@dataclass(frozen=True)
class Logged(RunReading):
    """A metric of training, averaged since the point before."""

    metric: str
    name: str
    times: float = 1.0

    def label(self, samples: int) -> str:
        return self.name

    def columns(self, base: Snapshot, now: Snapshot) -> Array | None:
        value = now.logged.get(self.metric)
        return None if value is None else counted([self.times * value])


def counted(values: Any) -> Array:
    """[element, 2] the values and ones: a mean is the ratio of their sums."""
    x = np.asarray(values, dtype=float)
    return np.stack([x, np.ones(len(x))], axis=-1)
