"""A lab: a paper's controlled experiment on training, as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podium.core.errors import within
from podium.evaluation.resample import Array, Measure, estimate
from podium.labs.findings import Findings, Study, StudySize
from podium.labs.reading import RunReading, Snapshot
from podium.method import Method

__all__ = ["BASE_LABEL", "QUICK", "Lab", "LabFindings", "LabSize"]

BASE_LABEL = "base"  # the model before training


class LabSize(StudySize):
    """How large an experiment on training is."""

    iterations: int = 30  # of the first arm; the tokens that it samples are the budget of the others
    tasks: int = 16  # an iteration
    n: int = 8  # rollouts a task
    seeds: int = 3
    points: int = 4  # measurements along training, beside the one before
    eval_tasks: int = 48
    samples: int = 64  # answers to each held-out task, so the largest k

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "points", 1, self.iterations)


QUICK = LabSize(iterations=5, tasks=8, seeds=3, points=1, eval_tasks=12, samples=32)


@dataclass(frozen=True)
class Lab(Study[RunReading]):
    """Methods that are trained on the same tasks; a claim may also name the base, the model before training."""

    arms: Mapping[str, Callable[[], Method]]
    size: LabSize = LabSize()
    quick: LabSize = QUICK
    settings: Mapping[str, Any] = field(default_factory=dict)  # world, level, learning rate, …

    @property
    def sides(self) -> tuple[str, ...]:
        return (BASE_LABEL, *self.arms)


@dataclass(frozen=True)
class LabFindings(Findings[RunReading]):
    """What a lab came to: for each arm and seed the points along its training."""

    study: Lab
    size: LabSize
    points: Mapping[str, Sequence[Sequence[Snapshot]]]

    @property
    def basis(self) -> str:
        return (
            "The same tasks and random numbers in all arms, the same budget of sampled tokens. Brackets and bands are "
            "95 % intervals over held-out tasks and seeds, resampled together; differences are paired."
        )

    def descriptions(self) -> dict[str, str]:
        return {name: build().describe() for name, build in self.study.arms.items()}

    def columns(self, reading: RunReading, arm: str, place: int = -1) -> Array | None:
        """[seed, task, column] of an arm, or of the base."""
        runs, place = (next(iter(self.points.values())), 0) if arm == BASE_LABEL else (self.points[arm], place)
        by_seed = [reading.columns(run[0], run[place]) for run in runs]
        return None if any(x is None for x in by_seed) else np.stack([x for x in by_seed if x is not None])

    def measure(self, reading: RunReading, arm: str, place: int = -1) -> Measure | None:
        """A reading of an arm at the end, or at another point."""
        columns = self.columns(reading, arm, place)
        return None if columns is None else estimate(columns, reading.value, bounds=reading.bounds)

    def label(self, reading: RunReading) -> str:
        return reading.label(self.size.samples)

    def tokens(self, arm: str, place: int) -> float:
        """Sampled tokens at a point, the mean over seeds."""
        return float(np.mean([run[place].tokens for run in self.points[arm]]))

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "pass@k": {arm: self._curves(runs) for arm, runs in self.points.items()}}

    def _curves(self, runs: Sequence[Sequence[Snapshot]]) -> list[list[float]]:
        """[point, k − 1] pass@k, the mean over tasks and seeds."""
        values = np.array([[point.tally.curves.mean(0) for point in run] for run in runs])
        curves: list[list[float]] = values.mean(0).tolist()
        return curves
