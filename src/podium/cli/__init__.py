"""The command line: `podium methods …`."""

from podium.cli.app import main

__all__ = ["main"]
