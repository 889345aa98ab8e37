"""Accuracy against the thinking budget, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podium.cli.console import table

if TYPE_CHECKING:
    from podium.analysis.thinking import BudgetPoint

__all__ = ["show_curve"]

BAR = 24  # characters of an accuracy of 1


def show_curve(points: Sequence[BudgetPoint]) -> None:
    """One row per budget, with a bar as long as the accuracy."""
    rows = [
        [
            str(p.budget),
            f"{p.accuracy.mean:.3f}",
            f"[{p.accuracy.low:.3f}, {p.accuracy.high:.3f}]",
            f"{p.thought:.1f}",
            f"{p.cut:.0%}",
            "█" * round(BAR * p.accuracy.mean),
        ]
        for p in points
    ]
    table(["budget", "accuracy", "95 % interval", "tokens thought", "cut", ""], rows)
