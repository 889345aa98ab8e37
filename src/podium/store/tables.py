"""Finding and reading the parquet and safetensors files of a run. One sentence names a file that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["by_iteration", "read_rows", "read_schema", "read_tensors", "rollout_files"]

NAME = re.compile(r"iteration-(\d{6,18})")
# What pyarrow raises on bytes that are no parquet, or no longer the parquet that was written.
UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError, TypeError, MemoryError, OverflowError)


def read_schema(file: Path) -> pa.Schema:
    """The columns of a parquet file, with the metadata that was written with them."""
    try:
        return pq.read_schema(file)
    except UNREADABLE as error:
        raise _damaged(file, error) from error


def read_rows(file: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a parquet file, after a comparison with the checksums of its pages where it has them."""
    try:
        chosen = None if columns is None else list(columns)
        rows: list[dict[str, Any]] = pq.read_table(file, columns=chosen, page_checksum_verification=True).to_pylist()
    except UNREADABLE as error:
        raise _damaged(file, error) from error
    missing = [name for name in columns or () if rows and name not in rows[0]]
    if missing:
        raise PodiumError(f"{file} has no column {missing[0]!r}: it is damaged, or was not written by a run.")
    _check_iteration(file, rows)
    return rows


def _check_iteration(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a sound file that stands in the place of another iteration's."""
    named = NAME.fullmatch(file.stem)
    others = {row["iteration"] for row in rows if "iteration" in row} - ({int(named[1])} if named else set())
    if named and others:
        raise PodiumError(f"{file} is damaged: it has rollouts of iteration {min(others)}.")


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        tensors: dict[str, Tensor] = load_file(file)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise _damaged(file, error) from error
    return tensors


def rollout_files(run: Path) -> dict[int, Path]:
    """The files of a run's rollouts by iteration, oldest first."""
    return by_iteration(run / "rollouts", ".parquet")


def by_iteration(folder: Path, suffix: str = "") -> dict[int, Path]:
    """The entries of a folder with names such as `iteration-000025` followed by `suffix`, by iteration, oldest first.
    Other entries are not a run's."""
    if not folder.is_dir():
        return {}
    names = [(path.name.removesuffix(suffix), path) for path in folder.iterdir() if path.name.endswith(suffix)]
    matches = [(NAME.fullmatch(name), path) for name, path in names]
    return dict(sorted((int(match[1]), path) for match, path in matches if match is not None))


def _damaged(file: Path, error: BaseException) -> PodiumError:
    if isinstance(error, FileNotFoundError):
        return PodiumError(f"There is no file {file}.")
    reason = " ".join(str(error).split()) or type(error).__name__
    return PodiumError(f"{file} is damaged: {reason.rstrip('.')}.")
