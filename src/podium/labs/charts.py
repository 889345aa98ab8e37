"""What a lab draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from podium.analysis import paired_models as contrast
from podium.analysis.dynamics import bandit
from podium.evaluation.resample import Measure
from podium.labs.lab import BASE_LABEL, LabFindings
from podium.labs.notes import Fit
from podium.labs.reading import PassAt, RunReading
from podium.labs.trial import TrialFindings
from podium.report.chart import BLUE, GREEN, GREY, RED, Series, bars, chart

__all__ = ["along", "exact_bandit", "exchange", "pass_curves", "support", "traced"]

Chart = Callable[[LabFindings], str]


def along(reading: RunReading) -> Chart:
    """A reading at the points of training, one curve per arm."""

    def draw(findings: LabFindings) -> str:
        series = []
        for arm, runs in findings.points.items():
            places = [p for p in range(len(runs[0])) if findings.columns(reading, arm, p) is not None]
            measured = [m for p in places if (m := findings.measure(reading, arm, p)) is not None]
            series.append(_curve(arm, [findings.tokens(arm, p) for p in places], measured))
        return chart(findings.label(reading), series, x_label="sampled tokens")

    return draw


def traced(name: str, *, over: str, title: str, x_label: str, log_x: bool = False) -> Callable[[TrialFindings], str]:
    """What the arms of a trial return under a name as curves over what they return under another, with bands over
    seeds."""

    def draw(findings: TrialFindings) -> str:
        series = [
            _curve(arm, by_seed[0][over].tolist(), findings.trace(name, arm))
            for arm, by_seed in findings.values.items()
            if name in by_seed[0]
        ]
        return chart(title, series, x_label=x_label, log_x=log_x)

    return draw


def pass_curves(findings: LabFindings) -> str:
    """pass@k of the base and of each arm at the end, over k."""
    ks = sorted({2**e for e in range(findings.size.samples.bit_length())} | {findings.size.samples})
    series = []
    for arm in (*findings.points, BASE_LABEL):
        measured = [m for k in ks if (m := findings.measure(PassAt(k), arm)) is not None]
        series.append(_curve(arm, ks, measured, "dashed" if arm == BASE_LABEL else "line"))
    return chart("pass@k after training", series, x_label="k, tries", log_x=True)


def support(findings: LabFindings) -> str:
    """What became of the held-out tasks of all seeds, one bar per arm."""
    rows = []
    for arm, runs in findings.points.items():
        counts = np.sum([contrast.kinds(run[0].tally, run[-1].tally).sum(0) for run in runs], axis=0)
        rows.append((arm, counts.tolist()))
    parts = (("preserved", BLUE), ("expanded", GREEN), ("shrunk", RED), ("out of support", GREY))
    return bars(f"support at k = {findings.size.samples}", rows, parts, x_label="held-out tasks, all seeds")


def exchange(entropy: RunReading, score: RunReading) -> Chart:
    """Score over entropy at all points of training, with the law R = −a · exp(H) + b fitted to each arm."""

    def draw(findings: LabFindings) -> str:
        dots, laws = [], []
        for number, arm in enumerate(findings.points):
            fit = Fit.of(findings, arm, entropy, score)
            dots.append(Series(f"{arm}: {fit}", fit.entropy, fit.score, style="dots", colour=number))
            grid = np.linspace(fit.entropy[0], fit.entropy[-1], 24).tolist()
            laws.append(Series("", grid, [fit.law(x) for x in grid], style="thin", colour=number))
        return chart(f"{findings.label(score)} over entropy", [*dots, *laws], x_label=f"H: {findings.label(entropy)}")

    return draw


def exact_bandit(findings: LabFindings) -> str:
    """The paper's toy: three arms worth 0.8, 0.1 and 1, the best one rare; exact expected steps."""
    initial = torch.tensor([0.55, 0.40, 0.05], dtype=torch.float64)
    rewards = torch.tensor([0.8, 0.1, 1.0], dtype=torch.float64)
    steps = list(range(0, 601, 6))
    both, negative = (bandit(initial, rewards, 1.0, steps, negative_only=flag)[:, 2].tolist() for flag in (False, True))
    series = [Series("both signs", steps, both), Series("failures only", steps, negative, colour=2)]
    return chart("exact bandit: best arm's probability", series, x_label="exact step")


def _curve(name: str, x: Sequence[float], measured: Sequence[Measure], style: str = "line") -> Series:
    band = None if style == "dashed" else ([m.low for m in measured], [m.high for m in measured])
    low, high = band or (None, None)
    return Series(name, x, [m.mean for m in measured], low, high, style)
