"""What a process has started, and what a leak would show in."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def children(parent: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, owner = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended
            continue
        if int(owner) == parent and state != "Z":
            found += [int(stat.parent.name), *children(int(stat.parent.name))]
    return found


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def counts() -> dict[str, object]:
    return {
        "processes": sorted(children(os.getpid())),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "folders": sorted(Path(tempfile.gettempdir()).glob("podium-*")),
    }


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Whatever is started inside is gone afterwards; temporary files are made in a folder of their own."""
    usual, tempfile.tempdir = tempfile.tempdir, str(folder)
    before = counts()
    try:
        yield
        deadline = time.monotonic() + 5  # threads take a moment to end
        while counts() != before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert counts() == before
    finally:
        tempfile.tempdir = usual
