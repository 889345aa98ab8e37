"""`podium lab`: a study's experiment, its table and its figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line, table

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
    jobs: Annotated[int, typer.Option(min=1, help="Processes that share the seeds.")] = 1,
) -> None:
    """Run the controlled experiment of a study.

    It trains on an embedded world, or tries out what needs no language model, and prints a table with intervals and a
    conclusion.
    """
    from podium import labs

    if slug is None:
        table(["lab", "question"], [[name, study.question] for name, study in labs.LABS.items()])
        return
    outcome = labs.lab(slug, out=out, seeds=seeds, quick=quick, jobs=jobs, progress=line)
    line()
    header = ["arm", *(outcome.label(reading) for reading in outcome.study.readings)]
    table(header, [[arm, *("" if m is None else str(m) for m in row)] for arm, row in outcome.table()])
    line()
    line(outcome.found())
    line(outcome.agreement())
    line(f"Figure: {outcome.path / 'lab.html'}")
