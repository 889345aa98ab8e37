"""Folders that untrusted code has written into."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice

__all__ = ["MOST_FILES", "folder_bytes", "is_small", "remove_folder"]

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_FILES = 2000  # files and folders that a process may make
FEW = 20


def folder_bytes(folder: str) -> int | None:
    """The bytes of all files in a folder; None if there are more than MOST_FILES of them."""
    total, count, pending = 0, 0, [folder]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:  # unreadable, or gone in the meantime
            continue
        for entry in entries:
            count += 1
            if count > MOST_FILES:
                return None
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def is_small(folder: str) -> bool:
    """Whether a folder holds a few files at most, so that it is removed in no time."""
    try:
        entries = list(islice(os.scandir(folder), FEW + 1))
        return len(entries) <= FEW and not any(entry.is_dir(follow_symlinks=False) for entry in entries)
    except OSError:
        return True


def remove_folder(folder: str) -> None:
    """Remove a folder and all in it, however deep: no path gets too long for the system, no recursion for Python."""
    with suppress(OSError):
        here = os.open(folder, FOLDER)
        try:
            above: list[tuple[str, list[str]]] = []  # the folders on the way here, and those that are left beside them
            folders = _without_files(here)
            while above or folders:
                if folders:
                    name = folders.pop()
                    with suppress(OSError):
                        os.chmod(name, 0o700, dir_fd=here)
                        here = _moved(here, name)
                        above.append((name, folders))
                        folders = _without_files(here)
                else:
                    name, folders = above.pop()
                    here = _moved(here, "..")
                    with suppress(OSError):
                        os.rmdir(name, dir_fd=here)
        finally:
            os.close(here)
        os.rmdir(folder)


def _moved(here: int, name: str) -> int:
    """The handle of another folder instead of this one."""
    there = os.open(name, FOLDER, dir_fd=here)
    os.close(here)
    return there


def _without_files(here: int) -> list[str]:
    """Remove the files of a folder; the names of the folders in it."""
    folders = []
    for entry in list(os.scandir(here)):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=here)
    return folders
