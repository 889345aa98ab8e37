"""`podium lab`: a study's experiment, its table and its figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podium.cli.console import line, table

if TYPE_CHECKING:
    from podium.sessions.train import Result

__all__ = ["lab"]


def lab(
    slug: Annotated[str | None, typer.Argument(help="A study; without one, the studies are listed.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The directory of the runs and results; what is there already is continued.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="The number of seeds per arm.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small version: about a minute, with wide intervals.")
    ] = False,
) -> None:
    """Run the controlled experiment of a study.

    It runs on an embedded world, and prints a table with intervals and a conclusion.
    """
    from podium import labs

    if slug is None:
        table(["lab", "question"], [[name, study.question] for name, study in labs.LABS.items()])
        return

    def progress(name: str, seed: int, result: Result) -> None:
        line(f"{name}, seed {seed}: {result.metrics[-1]['iteration']} iterations")

    outcome = labs.lab(slug, out=out, seeds=seeds, quick=quick, progress=progress)
    line()
    header = ["arm", *(outcome.label(reading) for reading in outcome.lab.readings)]
    table(header, [[arm, *("" if m is None else str(m) for m in row)] for arm, row in outcome.table()])
    line()
    line(outcome.found())
    line(outcome.agreement())
    line(f"Figure: {outcome.path / 'lab.html'}")
