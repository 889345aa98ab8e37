"""The resources that a sandboxed process may use."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["MB", "Limits", "apply_limits", "memory_file", "mapped_bytes"]

MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The resources of one call, or of one request to a session."""

    wall_s: float = 5.0  # seconds for an answer
    cpu_s: float = 5.0  # of processor time
    memory_mb: int = 256  # on top of what the server has loaded; for a session in all
    files_mb: int = 0  # what it may write into a folder of its own; 0: it has none and writes nothing
    answer_mb: int = 1  # the size of what it returns


def apply_limits(limits: Limits, mapped: int) -> None:
    """Limit this process, which has mapped `mapped` bytes of memory, for good. Time is limited by the server."""
    import resource  # which Windows does not have

    memory = mapped + limits.memory_mb * MB
    for kind, limit in (
        # All of the address space: RLIMIT_DATA leaves out shared memory, which any process can make.
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, limits.files_mb * MB),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        _, highest = resource.getrlimit(kind)
        if highest != resource.RLIM_INFINITY:
            limit = min(limit, highest)
        resource.setrlimit(kind, (limit, limit))


def memory_file() -> int:
    """A handle from which this process and its children can read how much memory this process has mapped."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def mapped_bytes(handle: int) -> int:
    return int(os.pread(handle, 256, 0).split()[0]) * os.sysconf("SC_PAGE_SIZE")
