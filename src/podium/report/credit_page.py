"""The report of a credit benchmark: tables, and figures of how estimators improve with more rollouts."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from podium.analysis.credit import CreditScore
from podium.evaluation.resample import Measure
from podium.report.chart import Series, chart, picture
from podium.report.run_page import document
from podium.store.files import atomic_text

__all__ = ["HEADER", "NOTE", "cells", "heading", "credit_settings", "write_credit", "write_figure"]

HEADER = ("estimator", "correlation", "sign errors", "error", "gradient", "ahead", "expected", "variance")
DRAWN = ("correlation", "sign errors", "gradient", "variance")
NOTE = (
    "Against the exact advantage of every step: correlation; the share of it that is pushed the wrong way (0.5 is a "
    "coin); the squared error that the best scale leaves (1 is no credit at all); the cosine between a group's "
    "gradient and the exact one, and how far it is ahead of the first row's on the same rollouts; the cosine of the "
    "expected gradient (1 is unbiased up to scale); and the variance of a group's gradient between batches, as a "
    "multiple of its mean squared. 95 % intervals: over seeds and tasks, of the last two columns over seeds."
)


def credit_settings(scores: Sequence[CreditScore]) -> list[list[CreditScore]]:
    """The scores, those of one world, policy and number of rollouts together."""
    return [list(rows) for _, rows in groupby(scores, lambda s: (s.world, s.strength, s.rollouts))]


def heading(score: CreditScore) -> str:
    policy = f"strength {score.strength:g} (reward {score.reward:.2f})"
    return f"{score.world}, {policy}, {score.rollouts} rollouts a task"


def cells(score: CreditScore) -> list[str]:
    """A row of the table."""
    return [score.name, *(format_measure(score.measures[name]) for name in HEADER[1:])]


def format_measure(measure: Measure) -> str:
    """A measure for a table; a dash where it is not defined."""
    return "–" if math.isnan(measure.mean) else f"{measure.mean:.2f} [{measure.low:.2f}, {measure.high:.2f}]"


def write_credit(scores: Sequence[CreditScore], target: Path, title: str) -> Path:
    """Write the report; returns its path."""
    drawn = "".join(f"<div>{shown}</div>" for shown, _ in _charts(scores))
    body = [f"<h1>{html.escape(title)}</h1><p>{html.escape(NOTE)}</p>", f'<div class="charts">{drawn}</div>']
    for rows in credit_settings(scores):
        lines = [HEADER, *map(cells, rows)]
        marked = [
            "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line)
            for tag, line in zip(["th", *["td"] * len(rows)], lines, strict=True)
        ]
        body.append(f"<h2>{html.escape(heading(rows[0]))}</h2>")
        body.append("<table>" + "".join(f"<tr>{line}</tr>" for line in marked) + "</table>")
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(target, document(title, "".join(body)))
    return target


def write_figure(scores: Sequence[CreditScore], target: Path) -> Path:
    """Write the charts as one SVG file; returns its path."""
    drawn = [(shown, curves) for shown, curves in _charts(scores) if shown]
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(target, picture([shown for shown, _ in drawn], drawn[0][1]))
    return target


def _charts(scores: Sequence[CreditScore]) -> list[tuple[str, list[Series]]]:
    """Charts and what they show, over the number of rollouts, for each policy; over policies, where that is one."""
    many = len({s.rollouts for s in scores}) > 1
    label = "rollouts a task" if many else "strength of the policy"
    drawn = []
    for world, value in dict.fromkeys((s.world, s.strength if many else s.rollouts) for s in scores):
        chosen = [s for s in scores if (s.world, s.strength if many else s.rollouts) == (world, value)]
        where = f"{world}, strength {value:g}" if many else f"{world}, {value} rollouts"
        for name in DRAWN:
            curves = _curves(chosen, name, many)
            shown = chart(f"{name}: {where}", curves, x_label=label, log_x=many, log_y=name == "variance")
            drawn.append((shown, curves))
    return drawn


def _curves(scores: Sequence[CreditScore], name: str, many: bool) -> list[Series]:
    """One curve per estimator: methods in colours, references dashed."""
    curves, placed = [], {"line": 0, "dashed": 0}
    for estimator in dict.fromkeys(s.name for s in scores):
        defined = [s for s in scores if s.name == estimator and not math.isnan(s.measures[name].low)]
        defined.sort(key=lambda s: (s.rollouts, s.strength))
        x, measures = [float(s.rollouts if many else s.strength) for s in defined], [s.measures[name] for s in defined]
        style = "dashed" if estimator.startswith("gae") else "line"
        bands = [m.low for m in measures], [m.high for m in measures]
        curves.append(Series(estimator, x, [m.mean for m in measures], *bands, style, placed[style]))
        placed[style] += 1
    return curves
