"""`podium export`: a run's model as other tools read it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line

__all__ = ["export"]


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run.")],
    out: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory for the model.")],
    adapters: Annotated[
        bool, typer.Option("--adapters", help="Write the LoRA adapters alone, as peft reads them, not a merged model.")
    ] = False,
) -> None:
    """Write the newest weights of a run as a directory that from_pretrained reads, with a model card."""
    from podium.sessions.export_run import export_run

    line(f"Model: {export_run(run, out, adapters=adapters)}")
    line(f"Its card: {out / 'README.md'}. To measure it: podium eval {out} --world …")
