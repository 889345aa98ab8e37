"""A run is a directory: its configuration, metrics, rollouts and checkpoints."""

from __future__ import annotations

import fcntl
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

import pyarrow as pa
import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.store.files import atomic_directory, atomic_text, atomic_write, explained
from podium.store.manifest import check_manifest, write_manifest
from podium.store.metrics_log import append_line, read_log, rewind_log
from podium.store.pictures import shown_file, thumbnail_png
from podium.store.retention import thin_oldest, write_table
from podium.store.tables import by_iteration, rollout_files

__all__ = ["ReadOnlyRun", "RunDirectory"]

CHECKPOINT = "iteration-{:06d}"
WIDEST = 16  # numbers per token that are written, unless nothing can recompute them: a hundred per token fill the disk
MOST_PICTURES = 500  # that a run keeps thumbnails of

LOCKED: WeakSet[RunDirectory] = WeakSet()  # by this process


class RunDirectory:
    """The files of a run. One process at a time may write them; anyone may read them meanwhile."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock: IO[str] | None = None
        self._pictured: set[Path] = set()  # thumbnails that are written
        self._thinned: set[Path] = set()  # files of rollouts of which only examples are kept

    # -- lock ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Create the directory and lock it for this process.

        The system releases the lock when the process ends, by whatever death, so that none is ever left behind. On NFS
        it holds between hosts unless the mount says otherwise (`nolock`, `local_lock`).
        """
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / ".lock").open("w")
        LOCKED.add(self)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise PodiumError(
                f"Another process is writing to {self.path}. Wait for it, or choose another --out."
            ) from error
        except OSError as error:  # such as Lustre, mounted without locks
            warnings.warn(
                f"The file system of {self.path} has no locks ({error.strerror}): nothing keeps a second process from "
                "writing there.",
                stacklevel=2,
            )

    def close(self) -> None:
        """Release the lock."""
        LOCKED.discard(self)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- configuration ---------------------------------------------------------------------------------------------

    def write_config(self, text: str) -> None:
        atomic_text(self.path / "config.yaml", text)

    def read_config(self) -> str:
        file = self.path / "config.yaml"
        if not file.is_file():
            raise PodiumError(f"{self.path} is not a run: it has no config.yaml.")
        try:
            return file.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise PodiumError(f"{file}: not UTF-8 text ({error.reason} at byte {error.start}).") from error

    # -- metrics ---------------------------------------------------------------------------------------------------

    def append_metrics(self, line: Mapping[str, Any]) -> None:
        """Append the metrics of an iteration as one line of JSON."""
        append_line(self.metrics_file, line)

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of each iteration; `metrics_log.read_log` also says which lines are damaged."""
        return list(read_log(self.metrics_file).lines)

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    # -- rollouts --------------------------------------------------------------------------------------------------

    def write_rollouts(self, iteration: int, batch: Batch) -> None:
        """Every rollout of an iteration as a row of a parquet file."""
        table = pa.table({name: _array(values) for name, values in rollout_columns(iteration, batch).items()})
        self._thinned.discard(self.rollouts(iteration))
        write_table(self.rollouts(iteration), table)

    def write_pictures(self, pictures: Mapping[str, bytes]) -> None:
        """Thumbnails of the pictures that prompts have shown, by the names under which texts show them."""
        for name, data in list(pictures.items())[:MOST_PICTURES]:
            file = shown_file(self.path, name)
            if file not in self._pictured:
                self._pictured.add(file)
                file.parent.mkdir(exist_ok=True)
                atomic_write(file, partial(_put, data=thumbnail_png(data, name)))

    def thin_rollouts(self, keep_gb: float | None, examples: int) -> None:
        """Keep the newest rollouts whole, up to `keep_gb` gigabytes (None: all of them), and of every older iteration
        `examples` in full."""
        if keep_gb is not None:
            thin_oldest(list(rollout_files(self.path).values()), keep_gb * 1e9, examples, self._thinned)

    def rollouts(self, iteration: int) -> Path:
        """The file of an iteration's rollouts, whether or not it is there."""
        return self.path / "rollouts" / f"iteration-{iteration:06d}.parquet"

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def write_checkpoint(self, iteration: int, fill: Callable[[Path], None], keep: int) -> Path:
        """Write a checkpoint with its manifest, whole or not at all. The newest `keep` stay, and all damaged ones."""
        path = self.path / "checkpoints" / CHECKPOINT.format(iteration)

        def complete(part: Path) -> None:
            fill(part)
            write_manifest(part, iteration)

        atomic_directory(path, complete)
        for old in [each for each in self.checkpoints() if _looks_whole(each)][:-keep]:
            shutil.rmtree(old, ignore_errors=True)
        return path

    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first. Some may be damaged, which shows when they are loaded."""
        return list(by_iteration(self.path / "checkpoints").values())

    def rewind(self, iteration: int, *, measured: bool = True) -> str:
        """Delete what was written after this iteration: a resumed run writes it again. Without `measured`, also the
        metrics of the iteration itself. Returns what was damaged, in sentences."""
        note = rewind_log(self.metrics_file, iteration - (not measured))
        for number, file in rollout_files(self.path).items():
            if number > iteration and file.is_file():
                file.unlink()
        return note


class ReadOnlyRun(RunDirectory):
    """The files of a run that another process writes: what would be written here is left to it."""

    def open(self) -> None:
        pass

    def write_config(self, text: str) -> None:
        pass

    def append_metrics(self, line: Mapping[str, Any]) -> None:
        pass

    def write_rollouts(self, iteration: int, batch: Batch) -> None:
        pass

    def thin_rollouts(self, keep_gb: float | None, examples: int) -> None:
        pass

    def write_checkpoint(self, iteration: int, fill: Callable[[Path], None], keep: int) -> Path:
        return self.path / "checkpoints" / CHECKPOINT.format(iteration)

    def rewind(self, iteration: int, *, measured: bool = True) -> str:
        return ""


def _looks_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint has all files with their sizes: their hashes would take too long after each iteration."""
    try:
        check_manifest(checkpoint, hashes=False)
    except PodiumError:
        return False
    return True


def _release_in_child() -> None:
    """A forked child shares its parent's locks, and would hold them for as long as it lives: it closes its copies."""
    for directory in list(LOCKED):
        directory.close()


os.register_at_fork(after_in_child=_release_in_child)


def _array(values: Any) -> pa.Array:
    """A column of a file. Values of a world that have several types, or one that files do not know, become text."""
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([[_text(v) for v in value] if isinstance(value, list) else _text(value) for value in values])


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def rollout_columns(iteration: int, batch: Batch) -> dict[str, Any]:
    """Every column as one value per rollout: those of rollouts, the task, and those of tokens and steps as lists."""
    tasks = batch["group.task"]
    groups = batch.link("rollout", "group").tolist()
    columns: dict[str, Any] = {
        "iteration": [iteration] * len(groups),
        "task": [int(tasks[g]) if isinstance(tasks, Tensor) else tasks[g] for g in groups],
        "group": groups,
    }
    for level in (name for name in batch.levels if name not in ("token", "rollout", "group", "batch")):
        columns |= _steps(batch, level)
    if "token.advantage" in batch and "token.advantage" not in batch.columns:
        batch = batch.with_columns({"token.advantage": batch["token.advantage"]})
    lengths = batch.partition("token", "rollout").lengths()
    for name in batch.columns:
        level, _, rest = name.partition(".")
        value = batch[name]
        if level == "rollout":
            columns[rest] = value.tolist() if isinstance(value, Tensor) else value
        elif level == "token" and isinstance(value, Tensor) and (value[:1].numel() <= WIDEST or _unrepeatable(rest)):
            columns[name] = _lists(value.detach().cpu(), lengths)
    for name in batch.relations:
        columns |= _pairs(batch, name)
    return columns


def _put(file: Path, data: bytes) -> None:
    file.write_bytes(data)


def _pairs(batch: Batch, name: str) -> dict[str, Any]:
    """The pairs of a relation of rollouts as lists, at the left one of each: the other's index, and their values."""
    relation = batch.relation(name)
    if relation.level != "rollout":
        return {}
    order = torch.argsort(relation.left, stable=True)
    lengths = torch.bincount(relation.left, minlength=len(batch))
    values = {"right": batch["rollout.index"][relation.right].long(), **relation.columns}
    return {f"{name}.{column}": _lists(x[order].detach().cpu(), lengths) for column, x in values.items()}


def _unrepeatable(name: str) -> bool:
    """Whether no model can compute it again: the sampler wrote it."""
    return name.startswith("sampler.")


def _lists(values: Tensor, lengths: Tensor) -> Any:
    """The values of tokens as a list for each rollout."""
    if not values.numel():
        return [x.tolist() for x in torch.split(values, lengths.tolist())]
    kind = torch.bool if values.dtype == torch.bool else torch.int64
    if values.is_floating_point():  # as exact as they are
        kind = torch.float64 if values.dtype == torch.float64 else torch.float32
    array = pa.array(values.to(kind).reshape(-1).numpy())
    for size in reversed(values.shape[1:]):
        array = pa.ListArray.from_arrays(pa.array(range(0, len(array) + 1, size), pa.int32()), array)
    ends = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)
    return pa.ListArray.from_arrays(pa.array(ends.cpu().numpy()), array)


def _steps(batch: Batch, level: str) -> dict[str, Any]:
    """Columns of turns, or of other steps, as lists, with the numbers of their tokens: enough to replay a rollout."""
    columns: dict[str, Sequence[Any]] = {f"{level}.length": batch.partition("token", level).lengths().tolist()}
    for name in batch.columns:
        value = batch[name]
        if name.startswith(f"{level}."):
            columns[name] = value.tolist() if isinstance(value, Tensor) else value
    if columns.get("turn.train_context") == columns.get("turn.context"):
        columns.pop("turn.train_context", None)
    ends = list(accumulate(batch.partition(level, "rollout").lengths().tolist(), initial=0))
    return {name: [list(values[a:b]) for a, b in pairwise(ends)] for name, values in columns.items()}
