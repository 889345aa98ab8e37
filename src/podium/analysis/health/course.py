"""The course of a run as rules read it: its metrics in order, its settings, and the machine that it runs on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

__all__ = ["Course", "Machine", "RunSetting"]

RECENT = 5  # iterations whose mean is the current state of a run
ENOUGH = 16  # held-out tasks: of fewer, all may be right, with an interval of no width
FIRST = 3  # iterations whose mean is its beginning


@dataclass(frozen=True)
class RunSetting:
    """The settings of a run that rules read."""

    run: str  # its directory, which the remedies name
    method: str
    world: str
    level: int | None  # of the world, where it has levels
    iterations: int
    tasks: int  # per iteration
    lr: float
    max_tokens: int
    eval_tasks: int
    eval_samples: int
    gap_allowed: float  # the mean gap between sampler and trainer at which the run stops
    seed: int = 0


@dataclass(frozen=True)
class Machine:
    """What is left on the machine, in bytes; None: not known."""

    disk_free: int | None = None  # where the run is written
    written_per_iteration: float = 0.0  # by the run, so far
    memory_free: int | None = None  # of the machine, or of the container that the run is in
    memory_total: int | None = None
    gpu_free: int | None = None
    gpu_total: int | None = None


@dataclass(frozen=True)
class Course:
    """The metrics of a run so far, with what else rules read."""

    lines: Sequence[Mapping[str, Any]]
    setting: RunSetting
    machine: Machine = field(default_factory=Machine)

    @cached_property
    def trained(self) -> list[Mapping[str, Any]]:
        """The iterations that sampled something."""
        return [line for line in self.lines if line.get("rollouts")]

    @cached_property
    def evaluations(self) -> list[Mapping[str, Any]]:
        """The iterations after which the policy was measured on held-out tasks."""
        return [line for line in self.lines if _number(line.get("eval.pass@1")) is not None]

    @property
    def measured(self) -> list[Mapping[str, Any]]:
        """The evaluations, where they are of enough tasks for their intervals to mean something."""
        return self.evaluations if self.setting.eval_tasks >= ENOUGH else []

    @property
    def iteration(self) -> int:
        return int(self.lines[-1]["iteration"]) if self.lines else 0

    @property
    def ended(self) -> bool:
        return self.iteration >= self.setting.iterations

    def values(self, name: str) -> list[float]:
        """The values of a metric in the iterations that have it; what is not finite is left out."""
        numbers = (_number(line.get(name)) for line in self.trained)
        return [x for x in numbers if x is not None]

    def first(self, name: str) -> float | None:
        """The mean of a metric at the beginning."""
        return _mean(self.values(name)[:FIRST])

    def recent(self, name: str) -> float | None:
        """The mean of a metric in the newest iterations; None: there are not enough of them."""
        values = self.values(name)
        return _mean(values[-RECENT:]) if len(values) >= RECENT else None

    def total(self, name: str) -> float:
        return sum(self.values(name))

    def share(self, *names: str, of: str = "rollouts") -> float:
        """Counts, added up, as a share of another one, over the newest iterations."""
        last = self.trained[-RECENT:]
        whole = sum(_number(line.get(of)) or 0 for line in last)
        return sum(_number(line.get(name)) or 0 for line in last for name in names) / whole if whole else 0.0

    def rise(self, name: str) -> float | None:
        """How far the mean of the second half of a metric is above that of the first, in standard errors; None: too few
        values."""
        values = self.values(name)
        half = len(values) // 2
        if half < RECENT:
            return None
        before, after = values[:half], values[-half:]
        error = math.sqrt((statistics.variance(before) + statistics.variance(after)) / half)
        difference = statistics.fmean(after) - statistics.fmean(before)
        return difference / error if error > 0 else math.copysign(math.inf, difference) if difference else 0.0

    def again(self, *changes: str) -> str:
        """The command that trains this run anew with changed settings."""
        sets = " ".join(f"--set {change}" for change in changes)
        return f"podium train --config {self.setting.run}/config.yaml {sets}"


def _number(value: Any) -> float | None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if plain else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
