"""Two models side by side, as text."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

from podium.analysis.paired_models import PairedComparison
from podium.cli.console import line, table
from podium.evaluation.resample import Measure

__all__ = ["crossing_sentence", "show_comparison", "show_measures"]

NAMES = {
    "retention": "retention SRR",
    "discovery": "discovery NDR",
    "dynamic_score": "dynamic score SDS",
    "net_change": "net change NSCR",
}


def show_comparison(pair: PairedComparison) -> None:
    """Measures of both models, where their pass@k curves cross, and what became of the base model's support."""
    show_measures(pair.measures())
    line(crossing_sentence(pair))
    line()
    rare = f"{pair.detectability:.2g}"
    line(f"Support at k = {pair.base.samples}: solved at least once. Solutions rarer than {rare} may be missed.")
    tasks, solutions = pair.support(), pair.support(solutions=True)
    counts = [[n, str(getattr(tasks, n)), str(getattr(solutions, n))] for n in ("preserved", "expanded", "shrunk")]
    counts.append(["out of support", str(tasks.out_of_support), ""])
    by_task, by_solution = pair.shares(), pair.shares(solutions=True)
    counts += [[NAMES[n], str(by_task[n]), str(by_solution[n])] for n in by_task]
    table(["support", "tasks", "distinct solutions"], counts)
    for change in ("expanded", "shrunk"):
        keys = [row["task"] for row in pair.tasks() if row["change"] == change]
        if keys:
            line(f"{change}: {', '.join(keys[:6])}{', …' if len(keys) > 6 else ''}")


def show_measures(measures: Mapping[str, tuple[Measure, Measure, Measure]]) -> None:
    """One row per measure: of the base, of the trained model, and their difference."""
    rows = [[name, _shown(a), _shown(b), _signed(c)] for name, (a, b, c) in measures.items()]
    table(["measure", "base", "trained", "difference"], rows)


def crossing_sentence(pair: PairedComparison) -> str:
    """Which pass@k curve is higher, and from which k on."""
    crossings = pair.crossings
    if not crossings:
        return "The pass@k curves are the same."
    model = {"base": "the base model", "trained": "the trained model"}
    intervals = [f"{model[above]} is above from k = {k}" for k, above in crossings]
    if len(crossings) == 1:
        return f"The pass@k curves do not cross up to k = {pair.base.samples}: {intervals[0]}."
    return f"The pass@k curves cross: {', '.join(intervals)}."


def _shown(m: Measure) -> str:
    return "undefined" if isnan(m.mean) else str(m)


def _signed(m: Measure) -> str:
    return "undefined" if isnan(m.mean) else f"{m.mean:+.3f} [{m.low:+.3f}, {m.high:+.3f}]"
