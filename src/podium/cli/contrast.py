"""Two models side by side, as text."""

from __future__ import annotations

from podium.analysis.paired_models import PairedComparison
from podium.cli.console import line, table
from podium.evaluation.resample import Measure

__all__ = ["crossing", "show"]

NAMES = {
    "retention": "retention SRR",
    "discovery": "discovery NDR",
    "dynamic_score": "dynamic score SDS",
    "net_change": "net change NSCR",
}


def show(found: PairedComparison) -> None:
    """Measures of both, where their pass@k curves cross, and what became of the base's support."""
    rows = [[name, str(a), str(b), _signed(c)] for name, (a, b, c) in found.measures().items()]
    table(["measure", "base", "trained", "difference"], rows)
    line(crossing(found))
    line()
    rare = f"{found.detectability:.2g}"
    line(f"Support at k = {found.base.samples}: solved at least once. Solutions rarer than {rare} may be missed.")
    tasks, solutions = found.support(), found.support(solutions=True)
    counts = [[n, str(getattr(tasks, n)), str(getattr(solutions, n))] for n in ("preserved", "expanded", "shrunk")]
    counts.append(["out of support", str(tasks.out_of_support), ""])
    by_task, by_solution = found.shares(), found.shares(solutions=True)
    counts += [[NAMES[n], str(by_task[n]), str(by_solution[n])] for n in by_task]
    table(["support", "tasks", "distinct solutions"], counts)
    for change in ("expanded", "shrunk"):
        keys = [row["task"] for row in found.tasks() if row["change"] == change]
        if keys:
            line(f"{change}: {', '.join(keys[:6])}{', …' if len(keys) > 6 else ''}")


def crossing(found: PairedComparison) -> str:
    """Which curve is the higher one, and from where on."""
    turns = found.crossings
    if not turns:
        return "The pass@k curves are the same."
    side = {"base": "the base", "trained": "the trained model"}
    told = [f"{side[above]} is above from k = {k}" for k, above in turns]
    if len(turns) == 1:
        return f"The pass@k curves do not cross up to k = {found.base.samples}: {told[0]}."
    return f"The pass@k curves cross: {', '.join(told)}."


def _signed(m: Measure) -> str:
    return f"{m.mean:+.3f} [{m.low:+.3f}, {m.high:+.3f}]"
