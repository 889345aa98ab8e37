"""A lab's page: what was asked, what was found, the table, the figures, the arms."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from podium.labs.findings import Findings
from podium.methods.catalogue import CATALOGUE
from podium.report.run_page import document
from podium.store.files import atomic_text

__all__ = ["write_page"]


def write_page(findings: Findings[Any]) -> Path:
    """Write `lab.html`; returns its path."""
    target = findings.path / "lab.html"
    atomic_text(target, document(f"lab: {findings.study.slug}", _body(findings)))
    return target


def _body(findings: Findings[Any]) -> str:
    study, settings = findings.study, {**getattr(findings.study, "settings", {}), **findings.size.settings()}
    charts = [svg for draw in study.charts if (svg := draw(findings))]
    arms = "".join(
        f'<details><summary>{html.escape(name)}</summary><pre class="code">{html.escape(text)}</pre></details>'
        for name, text in findings.descriptions().items()
    )
    return "".join(
        (
            f"<h1>{html.escape(study.slug)}</h1><p>{html.escape(study.question)}</p>",
            f"<p>{html.escape(CATALOGUE[study.slug].citation)}</p>" if study.slug in CATALOGUE else "",
            f"<h2>What the paper says, and what was found</h2>{_claims(findings)}",
            f"<h2>Measured</h2>{_table(findings)}<p>{findings.basis}</p>",
            f'<h2>Figures</h2><div class="charts">{"".join(f"<div>{svg}</div>" for svg in charts)}</div>',
            f"<h2>Arms</h2><p>{html.escape(', '.join(f'{k} {v}' for k, v in settings.items()))}.</p>{arms}",
        )
    )


def _claims(findings: Findings[Any]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(v.text)}</td><td>{html.escape(v.found)}</td><td><b>{v.word}</b></td></tr>"
        for v in findings.verdicts()
    )
    notes = "".join(f"<p>Also: {html.escape(note)}.</p>" for note in findings.notes())
    return f'<table class="text"><tr><th>the paper says that</th><th>here</th><th></th></tr>{rows}</table>{notes}'


def _table(findings: Findings[Any]) -> str:
    header = "".join(f"<th>{html.escape(findings.label(r))}</th>" for r in findings.study.readings)
    rows = []
    for arm, measures in findings.table():
        cells = "".join("<td></td>" if m is None else f"<td>{_cell(m.mean, m.low, m.high)}</td>" for m in measures)
        rows.append(f"<tr><td>{html.escape(arm)}</td>{cells}</tr>")
    return f"<table><tr><th>arm</th>{header}</tr>{''.join(rows)}</table>"


def _cell(mean: float, low: float, high: float) -> str:
    return f"{mean:.3f} <small>[{low:.3f}, {high:.3f}]</small>"
