"""The report of a comparison: a table and curves with intervals over seeds."""

from __future__ import annotations

import html
from pathlib import Path

import numpy as np

from podium.report.chart import Series, chart
from podium.report.run_page import document
from podium.sessions.compare import DIFFERENCES, Comparison, ComparisonRow, comparison_text, interval
from podium.store.files import atomic_text

__all__ = ["write_comparison"]


def write_comparison(comparison: Comparison) -> Path:
    """Write `compare.html` beside the runs; returns its path."""
    rows = "".join(_row(r, first=number == 0) for number, r in enumerate(comparison.rows))
    curves = [_curve(r, "eval.pass@1") for r in comparison.rows]
    entropies = [_curve(r, "entropy") for r in comparison.rows]
    settings = ", ".join(f"{k} {v}" for k, v in comparison.settings.items())
    body = (
        f"<h1>{html.escape(' · '.join(r.name for r in comparison.rows))}</h1>"
        "<p>The same tasks and random numbers in all, the same number of sampled tokens; differences are paired by "
        f"seed. Updates per batch and learning rates are each method's own. {html.escape(settings)}.</p>"
        "<table><tr><th>method</th><th>held-out pass@1</th><th>95 %</th><th>against the first</th><th>95 %</th>"
        f"<th>sampled tokens</th><th>updates</th><th>learning rate</th></tr>{rows}</table>"
        f'<h2>Curves</h2><div class="charts"><div>{chart("held-out pass@1", curves, x_label="sampled tokens")}</div>'
        f"<div>{chart('entropy', entropies, x_label='sampled tokens')}</div></div>"
    )
    target = comparison.path / "compare.html"
    text = document("comparison", body)
    atomic_text(target, text)
    return target


def _row(row: ComparisonRow, first: bool) -> str:
    cells = [html.escape(row.name), f"{row.mean:.3f}", comparison_text(row.finals)]
    cells += (
        ["", ""]
        if first
        else [f"{float(np.mean(row.differences)):+.3f}", comparison_text(row.differences, "+", DIFFERENCES)]
    )
    cells += [f"{int(np.mean(row.tokens)):,}", str(row.updates), f"{row.lr:g}"]
    return "<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"


def _curve(row: ComparisonRow, metric: str) -> Series:
    """The mean over seeds at common numbers of sampled tokens, with an interval."""
    curves = []
    for result in row.results:
        tokens, x, y = 0, [], []
        for line in result.metrics:
            tokens += line.get("tokens", 0)
            if metric in line:
                x.append(tokens)
                y.append(line[metric])
        curves.append((x, y))
    end = min(x[-1] for x, _ in curves)
    grid = np.linspace(max(x[0] for x, _ in curves), end, 24)
    values = np.stack([np.interp(grid, x, y) for x, y in curves])
    bands = [interval(values[:, i].tolist()) for i in range(len(grid))]
    return Series(row.name, grid.tolist(), values.mean(0).tolist(), [b[0] for b in bands], [b[1] for b in bands])
