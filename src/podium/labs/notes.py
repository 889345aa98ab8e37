"""What a lab says beside its claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from podium.analysis.dynamics import EntropyLaw, fit_entropy_law
from podium.analysis.paired_models import crossings
from podium.labs.lab import LabFindings
from podium.labs.reading import RunReading, Snapshot

__all__ = ["Fit", "Note", "crossing", "differs", "exceeds", "laws", "ratio_note"]

Note = Callable[[LabFindings], str]


@dataclass(frozen=True)
class Fit:
    """The law R = −a · exp(H) + b through all points of an arm, in the order of the entropy."""

    entropy: Sequence[float]
    score: Sequence[float]
    law: EntropyLaw

    @classmethod
    def of(cls, findings: LabFindings, arm: str, entropy: RunReading, score: RunReading) -> Fit:
        pairs = sorted(
            (_at(entropy, run, p), _at(score, run, p)) for run in findings.points[arm] for p in range(len(run))
        )
        h, r = zip(*pairs, strict=True)
        return cls(h, r, fit_entropy_law(h, r))

    @property
    def explained(self) -> float:
        """R²: the share of the score's variance that the law accounts for."""
        y = np.asarray(self.score)
        spread = float(((y - y.mean()) ** 2).sum())
        missed = sum((r - self.law(h)) ** 2 for h, r in zip(self.entropy, self.score, strict=True))
        return 1.0 - missed / spread if spread > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.law.b:.2f} − {self.law.a:.2f} exp(H), R² {self.explained:.2f}"


def laws(entropy: RunReading, score: RunReading) -> Note:
    """How well the law of exchange fits each arm."""

    def tell(findings: LabFindings) -> str:
        fits = [f"{Fit.of(findings, arm, entropy, score)} for {arm}" for arm in findings.points]
        return f"fitted to the points, R is {'; '.join(fits)}"

    return tell


def exceeds(reading: RunReading, arm: str, level: float) -> Note:
    """Whether a reading of an arm ends above a level that was set beforehand."""

    def tell(findings: LabFindings) -> str:
        found = findings.measure(reading, arm)
        if found is None:
            return f"{findings.label(reading)} of {arm} was not measured"
        word = "above" if found.low > level else "below" if found.high < level else "not distinguished from"
        return f"{findings.label(reading)} of {arm} is {found}, {word} {level:g}"

    return tell


def differs(reading: RunReading, more: str, less: str) -> Note:
    """A difference that no paper speaks of."""

    def tell(findings: LabFindings) -> str:
        return findings.compared(reading, more, less)

    return tell


def crossing(findings: LabFindings) -> str:
    """Where the pass@k curve of each arm crosses the base's."""
    sentences = []
    for arm, runs in findings.points.items():
        before, after = (np.mean([run[place].tally.curves.mean(0) for run in runs], axis=0) for place in (0, -1))
        turns = [f"{'above' if side == 'trained' else 'below'} from k = {k}" for k, side in crossings(before, after)]
        sentences.append(f"{arm} is {', '.join(turns) or 'equal'}")
    return f"against the base's pass@k, {'; '.join(sentences)}"


def ratio_note(arm: str, large: RunReading, small: RunReading, paper: str) -> Note:
    """How many times the one is the other, in magnitude, in an arm, beside the paper's number."""

    def tell(findings: LabFindings) -> str:
        top, bottom = (findings.measure(reading, arm) for reading in (large, small))
        if top is None or bottom is None or bottom.mean == 0:
            return f"{findings.label(small)} is 0 for {arm}"
        times = abs(top.mean / bottom.mean)
        return f"{findings.label(large)} is {times:.3g} times {findings.label(small)} for {arm} (the paper: {paper})"

    return tell


def _at(reading: RunReading, run: Sequence[Snapshot], place: int) -> float:
    columns = reading.columns(run[0], run[place])
    assert columns is not None
    return float(reading.value(columns.sum(0)[None])[0])
