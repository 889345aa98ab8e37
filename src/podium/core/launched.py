"""What a launcher such as torchrun has said about this process, read from the environment; torch is not needed."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["is_first", "launched_size", "restarted"]


def is_first(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is the one, of those that were launched together, that writes and prints."""
    return launched_size(environment) == 1 or environment.get("RANK") == "0"


def restarted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the launcher has started these processes again because one had failed."""
    return environment.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")


def launched_size(environment: Mapping[str, str] = os.environ) -> int:
    """How many processes were launched together."""
    launched = "MASTER_ADDR" in environment and "RANK" in environment
    size = environment.get("WORLD_SIZE", "1") if launched else "1"
    return int(size) if size.isdigit() else 1
