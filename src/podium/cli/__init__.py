"""The command line: `podium train`, `podium eval`, `podium methods`, …"""

from podium.cli.app import main, run

__all__ = ["main", "run"]
