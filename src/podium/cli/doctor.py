"""`podium doctor`: what is wrong with a run, why it matters, and what to do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line

__all__ = ["doctor"]


def doctor(
    runs: Annotated[list[Path], typer.Argument(help="Directories of runs; runs of several seeds are compared.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is wrong with a run: what was seen, why it matters, and the command that mends it.

    A training run looks for the same while it goes on, and says so at the iteration in which it shows.
    """
    from podium.sessions.doctor import examine_runs

    findings = examine_runs(runs)
    if as_json:
        line(json.dumps({run: [asdict(each) for each in found] for run, found in findings.items()}, indent=1))
        return
    for run, found in findings.items():
        line(f"{run}: {'nothing is wrong' if not found else 'to be mended: ' + str(len(found))}", style="bold")
        for each in found:
            line(f"  {each.rule}", style="yellow")
            line(f"    {each.seen}")
            line(f"    {each.matters}")
            line(f"    Remedy: {each.mend}")
