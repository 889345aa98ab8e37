"""`podium view`: the live page of one or many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line

__all__ = ["view"]


def view(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Directories of runs, or folders that hold some. [default: runs]")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on. [default: any that is free]")] = 0,
) -> None:
    """Show runs in the browser while they train: curves, rollouts, token X-rays, and what the doctor finds.

    The server listens on 127.0.0.1 alone, and the address that it prints holds a token. It reads the files of runs and
    changes nothing. On another machine, forward the port: ssh -L PORT:127.0.0.1:PORT HOST.
    """
    from podium.report.live_page import serve_page

    serve_page(runs or [Path("runs")], port, line)
