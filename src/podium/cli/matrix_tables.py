"""Which methods combine, as text."""

from __future__ import annotations

from collections.abc import Mapping

from podium.cli.console import line, rows, table
from podium.method import STAGES
from podium.methods.combination import VERDICTS, Combination
from podium.methods.matrix import Matrix

__all__ = ["show_matrix", "show_pair", "show_row"]


def show_matrix(matrix: Matrix) -> None:
    """Shares of pairs that combine, by the stages that they change, and the most frequent conflicts."""
    counts, shares = matrix.counts(), matrix.shares()
    stages = [stage for stage in STAGES if stage != "metric"]  # metrics never conflict
    line("The percentage of pairs that combine, by the stages that the two methods change:")
    line()
    numbers = [str(number) for number, _ in enumerate(stages, 1)]
    cells = [["", *(number.rjust(3) for number in numbers)]]
    for number, x in zip(numbers, stages, strict=True):
        percentages = [f"{100 * shares[x, y]:.0f}" if (x, y) in shares else "" for y in stages]
        cells.append([f"{number} {x}", *(text.rjust(3) for text in percentages)])
    rows(cells)
    line()
    line("The most frequent conflicts between the others:")
    table(("pairs", "conflict"), [(str(count), kind) for kind, count in matrix.obstacles().most_common(8)])
    line()
    line(f"{counts['yes']} ordered pairs combine, {counts['care']} with a choice or a warning, {counts['no']} do not.")
    line("One method with all others: podium methods matrix METHOD. A pair, with reasons: podium methods matrix A B.")


def show_row(pairs: Mapping[str, Combination]) -> None:
    """One method with each other method."""
    order = sorted(pairs.items(), key=lambda item: VERDICTS.index(item[1].verdict))
    cells = [(slug, pair.verdict, " ".join(pair.reasons[:1])) for slug, pair in order]
    table(("with", "combines", "why not, or what to look at first"), cells)


def show_pair(both: Combination, names: str) -> None:
    """What two methods make together, after what there is to decide; or why they do not combine."""
    for kind in ("conflict", "choice", "warning"):
        for reason in getattr(both, f"{kind}s"):
            line(f"{kind}: {reason}", style="red" if kind == "conflict" else "yellow")
    line(f"{names} do not combine." if both.method is None else both.method.describe())
