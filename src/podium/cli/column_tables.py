"""Gaps and dependence by a column, as text."""

from __future__ import annotations

from podium.cli.console import line, table
from podium.evaluation.column_gaps import ColumnGaps, Dependence

__all__ = ["show_dependence", "show_gaps"]


def show_gaps(found: ColumnGaps) -> None:
    """A row per value of the column, and the largest gap."""
    rows = [
        [name, str(rate), str(found.rollouts[name]), f"{found.unanswered[name]:.3f}"]
        for name, rate in found.rates.items()
    ]
    table([found.column, "success", "rollouts", "without an answer"], rows)
    line(f"Largest gap: {found.gap}")


def show_dependence(found: Dependence) -> None:
    """Both disparities with what chance alone shows, and their parts."""
    rows = [
        ["overall", f"{found.overall:.4f}", f"{found.chance_overall:.4f}"],
        ["within domains", f"{found.within:.4f}", f"{found.chance_within:.4f}"],
        ["unique", f"{found.unique:.4f}", ""],
        ["redundant: the domain tells it, too", f"{found.redundant:.4f}", ""],
        ["masked: only within domains", f"{found.masked:.4f}", ""],
    ]
    table([f"{found.column} and success", "bits", "bits by chance"], rows)
    if found.domains == 1:
        line("All tasks are of one domain: overall and within domains are the same.")
    if found.bound is not None:
        line(f"Between the two values success differs by at most {min(found.bound, 1.0):.3f}.")
