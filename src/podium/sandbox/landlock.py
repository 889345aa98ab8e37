"""Landlock: the files that a sandboxed process may read and write, on Linux 6.2 and later."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["landlock_missing", "enter", "ruleset"]

CREATE, ADD_RULE, RESTRICT = 444, 445, 446  # system calls, the same on every architecture
LEAST = 3  # the version from which truncating a file can be forbidden
READ_FILE, READ_DIR, REMOVE_DIR = 1 << 2, 1 << 3, 1 << 4
FILE_RIGHTS = 0b1100000000000111  # those that a rule on a single file may have
RIGHTS = {3: 0x7FFF, 5: 0xFFFF}  # all rights on files, from that version on


@cache
def _version() -> int:
    if platform.system() != "Linux":
        return 0
    return max(int(ctypes.CDLL(None, use_errno=True).syscall(CREATE, None, 0, 1)), 0)


def landlock_missing() -> str:
    """Why there is no Landlock here; empty: there is."""
    return "" if _version() >= LEAST else "this kernel has no Landlock, or an early version of it"


def ruleset(readable: Iterable[str], writable: str = "", removable: str = "") -> int:
    """The handle of a set of rules: read below some paths, do all below another, remove empty folders in a third."""
    version, libc = _version(), ctypes.CDLL(None, use_errno=True)
    handled = RIGHTS[5 if version >= 5 else 3]
    network = 0b11 if version >= 4 else 0  # TCP: bind and connect
    scoped = 0b11 if version >= 6 else 0  # abstract sockets and signals
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("=QQQ", handled, network, scoped)[:size]
    handle = _checked(libc.syscall(CREATE, attributes, size, 0), "creating a ruleset")
    try:
        rules = [(path, READ_FILE | READ_DIR) for path in readable]
        rules += [(path, rights) for path, rights in ((writable, handled), (removable, REMOVE_DIR)) if path]
        for path, rights in rules:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _add(libc, handle, Path(path), rights)
    except BaseException:
        os.close(handle)
        raise
    return handle


def enter(handle: int) -> None:
    """Hold this process, for good, to a set of rules besides those that it has."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    _checked(libc.syscall(RESTRICT, handle, 0), "restricting the process")


def _add(libc: ctypes.CDLL, handle: int, path: Path, rights: int) -> None:
    target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not path.is_dir():
            rights &= FILE_RIGHTS
        _checked(libc.syscall(ADD_RULE, handle, 1, struct.pack("=Qi", rights, target), 0), f"adding {path}")
    finally:
        os.close(target)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock, {what}: {os.strerror(number)}")
    return result
