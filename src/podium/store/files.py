"""Files that are whole or not there: atomic writes, and errors that name the file and the remedy."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from podium.core.errors import PodiumError

__all__ = ["atomic_directory", "atomic_text", "atomic_write", "explained"]


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's errors about `path` into one sentence for people."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise PodiumError(
                f"The disk is full: {path} could not be written. Free some space and resume the run."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PodiumError(f"{path} cannot be written (no permission). Choose another place with --out.") from error
        raise PodiumError(f"{path} could not be written: {error.strerror or error}.") from error


def atomic_write(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file beside `path` and move it there when it is complete."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        write(part)
        _sync(part)
        os.replace(part, path)


def atomic_text(path: Path, text: str) -> None:
    """Write text to `path`, whole or not at all."""

    def write(part: Path) -> None:
        part.write_text(text, encoding="utf-8")

    atomic_write(path, write)


def atomic_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Fill a directory beside `path` and move it there when it is complete."""
    with explained(path):
        part = path.with_name(f".{path.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        fill(part)
        for file in part.rglob("*"):
            if file.is_file():
                _sync(file)
        if path.exists():
            shutil.rmtree(path)
        os.replace(part, path)
        _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
