"""What a sandboxed process may use."""

from __future__ import annotations

import math
import os
import resource
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Limits", "apply_limits"]

MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The resources of one call, or of one request to a session."""

    wall_s: float = 5.0  # seconds for an answer
    cpu_s: float = 5.0  # of processor time; for a session in all
    memory_mb: int = 256  # on top of what the server has loaded
    files_mb: int = 0  # the size of a file that it may write into its own folder; 0: it has none and writes nothing
    answer_mb: int = 1  # the size of what it returns


def apply_limits(limits: Limits) -> None:
    """Limit this process, for good."""
    data = _data_bytes() + limits.memory_mb * MB
    cpu = math.ceil(limits.cpu_s)
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_DATA, data, data),
        (resource.RLIMIT_FSIZE, limits.files_mb * MB, limits.files_mb * MB),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, 64, 64),
    ):
        _, highest = resource.getrlimit(kind)
        if highest != resource.RLIM_INFINITY:
            soft, hard = min(soft, highest), min(hard, highest)
        resource.setrlimit(kind, (soft, hard))


def _data_bytes() -> int:
    """The writable private memory that this process has now."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[5])
    except (OSError, IndexError, ValueError):
        return 512 * MB
    return pages * os.sysconf("SC_PAGE_SIZE")
