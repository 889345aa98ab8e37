"""`podium merge`: what a run has learnt, merged back into the model that it started from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line

__all__ = ["merge"]


def merge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run.")],
    out: Annotated[Path, typer.Option(help="A new directory for the merged model.")],
    keep: Annotated[float, typer.Option(help="The share of the weights to merge: those that changed most.")] = 0.25,
    scale: Annotated[float, typer.Option(help="The factor on their changes.")] = 0.7,
) -> None:
    """Merge the largest changes of a run back into its base model.

    Recovers skills of the base model that training has cost, without training.
    """
    from podium.sessions.merge_run import merge_run

    line(f"Merged model: {merge_run(run, out, keep=keep, scale=scale)}")
    line(f"To measure it: podium eval {out} --world …")
