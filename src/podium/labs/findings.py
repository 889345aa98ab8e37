"""An experiment as a value, and what it came to: its table, and the paper's claims held against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from podium.core.errors import PodiumError, nearest, within
from podium.core.value import Value
from podium.evaluation.resample import Array, Measure, estimate
from podium.labs.reading import Reading

__all__ = ["Claim", "ClaimVerdict", "Findings", "Study", "StudySize"]

R = TypeVar("R", bound=Reading)


@dataclass(frozen=True)
class Claim(Generic[R]):
    """What the paper says, as a difference that it expects to be above zero."""

    text: str  # "… that …"
    reading: R
    more: str  # the arm with more of it
    less: str


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim held against what was measured."""

    text: str
    found: str
    difference: Measure
    seeds: int

    @property
    def word(self) -> str:
        if self.seeds < 2:
            return "undecided (one seed)"  # an interval within one seed says nothing about another one's luck
        if self.difference.low > 0:
            return "agrees"
        return "does not agree" if self.difference.high < 0 else "undecided"


class StudySize(Value):
    """How large an experiment is; one with more numbers derives from it."""

    seeds: int = 8

    def __post_init__(self) -> None:
        for name in self.field_names():
            within(self, name, 1)


@dataclass(frozen=True)
class Study(Generic[R]):
    """What is compared, what is read, what the paper says, and what is drawn."""

    slug: str
    question: str
    arms: Mapping[str, Callable[..., Any]]
    claims: tuple[Claim[R], ...]
    readings: tuple[R, ...]
    charts: tuple[Callable[[Any], str], ...] = ()  # from the findings to SVG
    notes: tuple[Callable[[Any], str], ...] = ()  # what is said beside the claims, from the findings

    def __post_init__(self) -> None:
        for claim in self.claims:
            for side in (claim.more, claim.less):
                if side not in self.sides:
                    problem = f"{self.slug}: the claim that {claim.text} is about {side!r}, which is no arm."
                    raise PodiumError(f"{problem} {nearest(side, self.sides)}")

    @property
    def sides(self) -> tuple[str, ...]:
        """What has a row in the table."""
        return tuple(self.arms)


@dataclass(frozen=True)
class Findings(ABC, Generic[R]):
    """What a study came to. Every number is made from columns of one row per seed and element: a held-out task, or
    whatever else the arms have in common. Columns of two arms are paired by both."""

    study: Study[R]
    size: StudySize
    path: Path

    @abstractmethod
    def columns(self, reading: R, arm: str) -> Array | None:
        """[seed, element, column] of an arm; None where it has no such thing."""

    @abstractmethod
    def label(self, reading: R) -> str:
        """A reading as the header of a column."""

    @property
    @abstractmethod
    def basis(self) -> str:
        """What the arms have in common, and what the intervals are over."""

    @abstractmethod
    def descriptions(self) -> dict[str, str]:
        """What each arm is."""

    def measure(self, reading: R, arm: str) -> Measure | None:
        """A reading of an arm with its interval."""
        columns = self.columns(reading, arm)
        return None if columns is None else estimate(columns, reading.value, bounds=reading.bounds)

    def difference(self, reading: R, more: str, less: str) -> Measure:
        """Paired by seed and element."""
        left, right = self.columns(reading, more), self.columns(reading, less)
        assert left is not None
        assert right is not None
        width = left.shape[-1]
        return estimate(
            np.concatenate([left, right], axis=-1),
            lambda sums: reading.value(sums[:, :width]) - reading.value(sums[:, width:]),
        )

    def table(self) -> list[tuple[str, list[Measure | None]]]:
        """A row for each side, a column for each reading."""
        return [(arm, [self.measure(r, arm) for r in self.study.readings]) for arm in self.study.sides]

    def notes(self) -> list[str]:
        return [note(self) for note in self.study.notes]

    def verdicts(self) -> list[ClaimVerdict]:
        return [self._verdict(claim) for claim in self.study.claims]

    def compared(self, reading: R, more: str, less: str) -> str:
        """Two sides and their difference, in words."""
        difference = self.difference(reading, more, less)
        sides = [self.measure(reading, arm) for arm in (more, less)]
        high, low = (f"{m.mean:.3g}" for m in sides if m is not None)
        gap = f"{difference.mean:+.3g} [{difference.low:+.3g}, {difference.high:+.3g}]"
        return f"{self.label(reading)} is {high} for {more} and {low} for {less} ({gap})"

    def _verdict(self, claim: Claim[R]) -> ClaimVerdict:
        difference = self.difference(claim.reading, claim.more, claim.less)
        text = self.compared(claim.reading, claim.more, claim.less)
        return ClaimVerdict(claim.text, text, difference, self.size.seeds)

    def found(self) -> str:
        """One sentence: what was found."""
        return f"Found: {'; '.join([*(v.found for v in self.verdicts()), *self.notes()])}."

    def agreement(self) -> str:
        """One sentence: whether it agrees with the paper."""
        return f"The paper says {'; '.join(f'that {v.text}: {v.word}' for v in self.verdicts())}."

    def as_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON."""
        labels = [self.label(r) for r in self.study.readings]
        return {
            "lab": self.study.slug,
            "size": self.size.settings(),
            "table": {
                arm: {label: m and m.as_dict() for label, m in zip(labels, row, strict=True)}
                for arm, row in self.table()
            },
            "claims": [
                {"text": v.text, "found": v.found, "verdict": v.word, "difference": v.difference.as_dict()}
                for v in self.verdicts()
            ],
            "notes": self.notes(),
        }
