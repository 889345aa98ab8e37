"""The report of a credit benchmark: a table for each policy, and how estimators improve with more rollouts."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from podium.evaluation.credit import Score
from podium.evaluation.resample import Measure
from podium.report.chart import Series, chart
from podium.report.page import document
from podium.store.files import atomic_text

__all__ = ["HEADER", "NOTE", "cells", "heading", "settings", "write_credit"]

HEADER = ("estimator", "correlation", "sign errors", "error", "gradient", "ahead", "expected")
NOTE = (
    "Against the exact advantage of every step: correlation; the share of it that is pushed the wrong way (0.5 is a "
    "coin); the squared error that the best scale leaves (1 is no credit at all); the cosine between a group's "
    "gradient and the exact one, and how far it is ahead of the first row's on the same rollouts; and the cosine of "
    "the expected gradient (1 is unbiased up to scale). 95 % intervals: over seeds and tasks, of the last column over "
    "seeds."
)


def settings(scores: Sequence[Score]) -> list[list[Score]]:
    """The scores, those of one policy and number of rollouts together."""
    return [list(rows) for _, rows in groupby(scores, lambda s: (s.strength, s.rollouts))]


def heading(score: Score) -> str:
    return f"Strength {score.strength:g} (success {score.success:.2f}), {score.rollouts} rollouts a task"


def cells(score: Score) -> list[str]:
    """A row of the table."""
    return [score.name, *(shown(score.measures[name]) for name in HEADER[1:])]


def shown(measure: Measure) -> str:
    """A measure for a table; a dash where it is not defined."""
    return "–" if math.isnan(measure.mean) else f"{measure.mean:.2f} [{measure.low:.2f}, {measure.high:.2f}]"


def write_credit(scores: Sequence[Score], target: Path, title: str) -> Path:
    """Write the report; returns its path."""
    body = [f"<h1>{html.escape(title)}</h1><p>{html.escape(NOTE)}</p>", f'<div class="charts">{_charts(scores)}</div>']
    for rows in settings(scores):
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


def _charts(scores: Sequence[Score]) -> str:
    """Correlation and gradient over the number of rollouts, a chart a policy; or over policies, where it is one."""
    many = len({s.rollouts for s in scores}) > 1
    drawn = []
    for value in sorted({s.strength if many else s.rollouts for s in scores}):
        chosen = [s for s in scores if (s.strength if many else s.rollouts) == value]
        where = f"strength {value:g}" if many else f"{value} rollouts"
        for name in ("correlation", "gradient"):
            curves = [_curve(chosen, estimator, name, many) for estimator in dict.fromkeys(s.name for s in chosen)]
            label = "rollouts a task" if many else "strength of the policy"
            drawn.append(f"<div>{chart(f'{name}, {where}', curves, x_label=label, log_x=many)}</div>")
    return "".join(drawn)


def _curve(scores: Sequence[Score], estimator: str, name: str, many: bool) -> Series:
    own = sorted((s for s in scores if s.name == estimator), key=lambda s: (s.rollouts, s.strength))
    found = [s.measures[name] for s in own if not math.isnan(s.measures[name].mean)]
    x = [float(s.rollouts if many else s.strength) for s in own if not math.isnan(s.measures[name].mean)]
    style = "dashed" if estimator.startswith("gae") else "line"
    return Series(estimator, x, [m.mean for m in found], [m.low for m in found], [m.high for m in found], style)
