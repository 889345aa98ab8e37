"""Rows of data in the usual formats: JSON lines, JSON, CSV, parquet, data sets saved by Hugging Face's `datasets`, and
data sets of the hub. Nothing that a data set contains is executed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from podium.core.errors import PodiumError
from podium.store.json_lines import parse_object, read_object

__all__ = ["DataRow", "Problem", "read_splits"]

SPLITS = {"train": "train", "training": "train"} | dict.fromkeys(("test", "validation", "valid", "val", "dev"), "test")
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*(:\w[\w.-]*)?")
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".arrow")
LARGEST_FIELD = 10_000_000  # characters of a field of CSV


class DataRow(NamedTuple):
    """A row, and where it stands."""

    where: str  # for errors: "data.csv, line 7"
    line: int
    data: Mapping[str, Any]


Problem = Callable[[str], None]  # is told of a row that cannot be read, which is then left out


def read_splits(source: str, problem: Problem | None = None) -> dict[str, list[DataRow]]:
    """The rows of a file, a folder or a data set of the hub, by split: `train`, and `test` where there is one.

    Without `problem`, a row that cannot be read is an error.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        splits = _folder(path, problem)
    elif path.is_file():
        splits = {"train": _file(path, problem)}
    elif HUB_NAME.fullmatch(source) and path.suffix.lower() not in SUFFIXES and not path.parent.is_dir():
        splits = _folder(_from_hub(source), problem)
    else:
        raise PodiumError(f"There is no file {source!r} (looked in {Path.cwd()}).")
    if not any(splits.values()):
        raise PodiumError(f"{source} has no rows.")
    return splits


def _file(path: Path, problem: Problem | None) -> list[DataRow]:
    readers = {
        **dict.fromkeys((".csv", ".tsv"), _csv),
        ".parquet": _parquet,
        ".arrow": _arrow,
        ".json": _json,
    }
    return list(readers.get(path.suffix.lower(), _json_lines)(path, problem))


def _json_lines(path: Path, problem: Problem | None) -> Iterator[DataRow]:
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            if not raw.strip():
                continue
            where = f"{path}, line {number}"
            try:
                row = parse_object(raw, where, 'a row must be a JSON object such as {"question": …}', strict=True)
            except PodiumError as error:
                if problem is None:
                    raise
                problem(str(error))
                continue
            yield DataRow(where, number, row)


def _json(path: Path, problem: Problem | None) -> Iterator[DataRow]:
    """A JSON array of objects; a file of JSON lines may have this suffix too."""
    with path.open("rb") as file:
        if file.read(64).lstrip()[:1] != b"[":
            yield from _json_lines(path, problem)
            return
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise PodiumError(f"{path}: not JSON ({error}).") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise PodiumError(f"{path}, row {number}: a row must be a JSON object.")
        yield DataRow(f"{path}, row {number}", number, row)


def _csv(path: Path, problem: Problem | None) -> Iterator[DataRow]:
    csv.field_size_limit(LARGEST_FIELD)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            names = next(reader, [])
            repeated = next((name for name in names if names.count(name) > 1), None)
            if repeated is not None:
                raise PodiumError(f"{path}: two columns are named {repeated!r}.")
            begin = reader.line_num + 1
            for values in reader:
                where, line, begin = f"{path}, line {begin}", begin, reader.line_num + 1
                if len(values) != len(names) and values:
                    message = f"{where}: it has {len(values)} fields, the header {len(names)}."
                    if problem is None:
                        raise PodiumError(message)
                    problem(message)
                elif values:
                    yield DataRow(where, line, dict(zip(names, values, strict=True)))
    except UnicodeDecodeError as error:
        raise PodiumError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from error
    except csv.Error as error:
        raise PodiumError(f"{path}: not CSV ({error}).") from error


def _parquet(path: Path, problem: Problem | None) -> Iterator[DataRow]:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise PodiumError(f"{path} cannot be read as parquet: {str(error).rstrip('.')}.") from error
    yield from _table_rows(table, path)


def _arrow(path: Path, problem: Problem | None) -> Iterator[DataRow]:
    """Arrow's stream format, as `datasets` writes it, or its file format."""
    for open_file in (pa.ipc.open_stream, pa.ipc.open_file):
        try:
            with pa.memory_map(str(path)) as file:
                table = open_file(file).read_all()
        except (OSError, pa.ArrowException):
            continue
        yield from _table_rows(table, path)
        return
    raise PodiumError(f"{path} cannot be read as an Arrow file.")


def _table_rows(table: pa.Table, path: Path) -> Iterator[DataRow]:
    number = 0
    for batch in table.to_batches():
        for row in batch.to_pylist():
            number += 1
            yield DataRow(f"{path}, row {number}", number, row)


def _folder(path: Path, problem: Problem | None) -> dict[str, list[DataRow]]:
    """A data set that `save_to_disk` has written, or files that are named after their splits."""
    if (path / "dataset_dict.json").is_file():
        names = read_object(path / "dataset_dict.json").get("splits", [])
        return _joined({name: _saved(path / str(name), problem) for name in names})
    if (path / "state.json").is_file():
        return {"train": _saved(path, problem)}
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    files = [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not files:
        raise PodiumError(
            f"{path} is a folder without data: name a file ({', '.join(SUFFIXES)}), or a data set that "
            "`save_to_disk` of Hugging Face's datasets has written."
        )
    by_split: dict[str, list[DataRow]] = {}
    for file in files:
        by_split.setdefault(_split_of(file.relative_to(path)), []).extend(_file(file, problem))
    return _joined(by_split)


def _saved(path: Path, problem: Problem | None) -> list[DataRow]:
    """One split of a data set that `save_to_disk` has written."""
    listed = read_object(path / "state.json").get("_data_files") or []
    names = [str(entry.get("filename", "")) for entry in listed if isinstance(entry, dict)]
    return [row for name in names for row in _arrow(path / Path(name).name, problem)]


def _split_of(file: Path) -> str:
    """The split that a file of a folder belongs to, by its name or its folder's: `test-00000-of-00001.parquet`."""
    words = [word for part in reversed(file.parts) for word in re.split(r"[^a-z]+", part.lower())]
    return next((word for word in words if word in SPLITS), "train")


def _joined(named: Mapping[str, list[DataRow]]) -> dict[str, list[DataRow]]:
    """Splits by Podium's names: if there is a `test`, the others that would be held out are left aside; without a
    `train`, the first one that is not held out is trained on."""
    if "train" not in named:
        named = {SPLITS.get(name, "train"): rows for name, rows in reversed(list(named.items()))}
    held_out = next((name for name, split in SPLITS.items() if split == "test" and named.get(name)), None)
    train = named.get("train") or []
    return {"train": train} if held_out is None else {"train": train, "test": named[held_out]}


def _from_hub(name: str) -> Path:
    """The folder of a data set of the hub, `owner/name` or `owner/name:subset`, fetched unless it is in the cache."""
    from huggingface_hub import snapshot_download

    repository, _, subset = name.partition(":")
    patterns = [f"{subset}/*"] if subset else [f"*{suffix}" for suffix in SUFFIXES]
    try:
        folder = Path(snapshot_download(repository, repo_type="dataset", allow_patterns=patterns))
    except Exception as error:  # of the network, the hub, or a login that is missing
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise PodiumError(
            f"{name} is no file or folder here, and the hub gave no data set of that name: {reason.rstrip('.')}. Check "
            "the name and the network; `hf download --repo-type dataset` fetches one for later."
        ) from error
    subsets = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name not in ("data", *SPLITS))
    if not subset and len(subsets) > 1:
        raise PodiumError(f"{name} has several subsets: name one, as in {name}:{subsets[0]}. ({', '.join(subsets)})")
    return folder / subset if subset else folder
