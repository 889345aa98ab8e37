"""The command line: `podium train`, `podium eval`, `podium methods`, …"""

from podium.cli.app import main

__all__ = ["main"]
