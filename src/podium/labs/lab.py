"""A lab: a paper's controlled experiment as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from podium.core.errors import within
from podium.core.value import Value
from podium.evaluation.resample import Array, Measure, estimate
from podium.labs.reading import Reading, Snapshot
from podium.method import Method

__all__ = ["BASE_LABEL", "QUICK", "Claim", "Findings", "Lab", "LabSize", "ClaimVerdict"]

BASE_LABEL = "base"  # the model before training


class LabSize(Value):
    """How large an experiment is."""

    iterations: int = 30  # of the first arm; the tokens that it samples are the budget of the others
    tasks: int = 16  # an iteration
    n: int = 8  # rollouts a task
    seeds: int = 3
    points: int = 4  # measurements along training, beside the one before
    eval_tasks: int = 48
    samples: int = 64  # answers to each held-out task, so the largest k

    def __post_init__(self) -> None:
        for name in self.field_names():
            within(self, name, 1)
        within(self, "points", 1, self.iterations)


QUICK = LabSize(iterations=5, tasks=8, seeds=3, points=1, eval_tasks=12, samples=32)


@dataclass(frozen=True)
class Claim:
    """What the paper says, as a difference that it expects to be above zero."""

    text: str  # "… that …"
    reading: Reading
    more: str  # the arm with more of it, or the base
    less: str


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim held against the runs."""

    claim: Claim
    found: str
    difference: Measure
    seeds: int

    @property
    def word(self) -> str:
        if self.seeds < 2:
            return "undecided (one seed)"  # an interval over tasks says nothing about another run's luck
        if self.difference.low > 0:
            return "agrees"
        return "does not agree" if self.difference.high < 0 else "undecided"


@dataclass(frozen=True)
class Lab:
    """What is trained, what is read, what the paper says, and what is drawn."""

    slug: str
    question: str
    arms: Mapping[str, Callable[[], Method]]
    claims: tuple[Claim, ...]
    readings: tuple[Reading, ...]
    charts: tuple[Callable[[Findings], str], ...]
    notes: tuple[Callable[[Findings], str], ...] = ()  # what is said beside the claims
    size: LabSize = LabSize()
    quick: LabSize = QUICK
    settings: Mapping[str, Any] = field(default_factory=dict)  # world, level, learning rate, …


@dataclass(frozen=True)
class Findings:
    """What a lab came to: for each arm and seed the points along its training."""

    lab: Lab
    size: LabSize
    path: Path
    points: Mapping[str, Sequence[Sequence[Snapshot]]]

    def columns(self, reading: Reading, arm: str, place: int = -1) -> Array | None:
        """[seed, task, column] of an arm, or of the base."""
        runs, place = (next(iter(self.points.values())), 0) if arm == BASE_LABEL else (self.points[arm], place)
        by_seed = [reading.columns(run[0], run[place]) for run in runs]
        return None if any(x is None for x in by_seed) else np.stack([x for x in by_seed if x is not None])

    def measure(self, reading: Reading, arm: str, place: int = -1) -> Measure | None:
        """A reading of an arm at the end, or at another point."""
        columns = self.columns(reading, arm, place)
        return None if columns is None else estimate(columns, reading.value, bounds=reading.bounds)

    def difference(self, reading: Reading, more: str, less: str) -> Measure:
        """Paired by seed and task."""
        left, right = self.columns(reading, more), self.columns(reading, less)
        assert left is not None
        assert right is not None
        width = left.shape[-1]
        return estimate(
            np.concatenate([left, right], axis=-1),
            lambda sums: reading.value(sums[:, :width]) - reading.value(sums[:, width:]),
        )

    def label(self, reading: Reading) -> str:
        return reading.label(self.size.samples)

    def tokens(self, arm: str, place: int) -> float:
        """Sampled tokens at a point, the mean over seeds."""
        return float(np.mean([run[place].tokens for run in self.points[arm]]))

    def table(self) -> list[tuple[str, list[Measure | None]]]:
        """A row for the base and for each arm, a column for each reading."""
        return [(arm, [self.measure(r, arm) for r in self.lab.readings]) for arm in (BASE_LABEL, *self.points)]

    def notes(self) -> list[str]:
        return [note(self) for note in self.lab.notes]

    def verdicts(self) -> list[ClaimVerdict]:
        return [self._verdict(claim) for claim in self.lab.claims]

    def _verdict(self, claim: Claim) -> ClaimVerdict:
        difference = self.difference(claim.reading, claim.more, claim.less)
        sides = [self.measure(claim.reading, arm) for arm in (claim.more, claim.less)]
        more, less = (f"{m.mean:.3g}" for m in sides if m is not None)
        gap = f"{difference.mean:+.3g} [{difference.low:+.3g}, {difference.high:+.3g}]"
        text = f"{self.label(claim.reading)} is {more} for {claim.more} and {less} for {claim.less} ({gap})"
        return ClaimVerdict(claim, text, difference, self.size.seeds)

    def found(self) -> str:
        """One sentence: what was found."""
        return f"Found: {'; '.join([*(v.found for v in self.verdicts()), *self.notes()])}."

    def agreement(self) -> str:
        """One sentence: whether it agrees with the paper."""
        verdicts = self.verdicts()
        return f"The paper says {'; '.join(f'that {v.claim.text}: {v.word}' for v in verdicts)}."

    def as_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON."""
        labels = [self.label(r) for r in self.lab.readings]
        return {
            "lab": self.lab.slug,
            "size": self.size.settings(),
            "table": {
                arm: {label: m and m.as_dict() for label, m in zip(labels, row, strict=True)}
                for arm, row in self.table()
            },
            "claims": [
                {"text": v.claim.text, "found": v.found, "verdict": v.word, "difference": v.difference.as_dict()}
                for v in self.verdicts()
            ],
            "notes": self.notes(),
            "pass@k": {arm: self._curves(runs) for arm, runs in self.points.items()},
        }

    def _curves(self, runs: Sequence[Sequence[Snapshot]]) -> list[list[float]]:
        """[point, k − 1] pass@k, the mean over tasks and seeds."""
        values = np.array([[point.tally.curves.mean(0) for point in run] for run in runs])
        curves: list[list[float]] = values.mean(0).tolist()
        return curves
