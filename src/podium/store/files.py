"""Atomic writes: a file is complete or not there. Errors name the file and say what to do."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from podium.core.errors import PodiumError

__all__ = ["atomic_directory", "atomic_text", "atomic_write", "check_writable", "explained"]


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's errors about `path` into one sentence that says what to do."""
    try:
        yield
    except OSError as error:
        raise _explanation(path, error.errno, error.strerror or str(error)) from error
    except SafetensorError as error:  # the system's error number is in its text
        number = re.search(r"os error (\d+)", str(error))
        raise _explanation(path, int(number[1]) if number else None, str(error)) from error


def _explanation(path: Path, number: int | None, reason: str) -> PodiumError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return PodiumError(f"The disk is full: {path} could not be written. Free some space and resume the run.")
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PodiumError(f"{path} cannot be written (no permission). Choose another place with --out.")
    if number == errno.EEXIST:
        return PodiumError(f"{path} is a file, not a directory. Choose another place with --out.")
    return PodiumError(f"{path} could not be written: {reason}. Choose another place with --out.")


def check_writable(path: Path) -> None:
    """Refuse a directory that cannot be created or written to, by trying: what was created for the trial is removed."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    try:
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
    finally:
        for place in missing:  # the innermost first
            if place.is_dir():
                place.rmdir()


def atomic_write(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file beside `path` and move it there when it is complete."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        try:
            write(part)
            _sync(part)
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)  # half a file would only take up space on a full disk
            raise


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
        try:
            fill(part)
            for inside in (part, *part.rglob("*")):
                _sync(inside)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
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
