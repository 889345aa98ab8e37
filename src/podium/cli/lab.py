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
    slug: Annotated[str | None, typer.Argument(help="A study; without one, they are listed.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where runs and results go; what is there is gone on with.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds each.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small: about a minute, with wide intervals.")] = False,
) -> None:
    """Run a study's controlled experiment on an embedded world: a table with intervals, a figure, and what it says."""
    from podium import labs

    if slug is None:
        table(["lab", "question"], [[name, made.question] for name, made in labs.LABS.items()])
        return

    def progress(name: str, seed: int, result: Result) -> None:
        line(f"{name}, seed {seed}: {result.metrics[-1]['iteration']} iterations")

    found = labs.lab(slug, out=out, seeds=seeds, quick=quick, progress=progress)
    line()
    header = ["arm", *(found.label(reading) for reading in found.lab.readings)]
    table(header, [[arm, *("" if m is None else str(m) for m in row)] for arm, row in found.table()])
    line()
    line(found.found())
    line(found.agreement())
    line(f"Figure: {found.path / 'lab.html'}")
