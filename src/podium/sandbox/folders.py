"""Folders that untrusted code has written into."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

__all__ = ["MOST_FILES", "folder_bytes", "remove_folder"]

MOST_FILES = 2000  # files and folders that a process may make


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


def remove_folder(folder: str) -> None:
    """Remove a folder and all in it, however deep: folders inside are moved up, so no path gets too long for the system
    and no recursion too deep for Python."""
    mark, folders = secrets.token_hex(8), [folder]
    for inner in folders:  # which grows
        with suppress(OSError):
            os.chmod(inner, 0o700)
            for entry in list(os.scandir(inner)):
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        moved = os.path.join(folder, f"{mark}-{len(folders)}")
                        os.rename(entry.path, moved)
                        folders.append(moved)
                    else:
                        os.unlink(entry.path)
    for inner in reversed(folders):
        with suppress(OSError):
            os.rmdir(inner)
