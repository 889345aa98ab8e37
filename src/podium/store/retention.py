"""Retention of rollouts: the newest are kept whole, older ones as a row of numbers each, with a few examples in full.

A thinned file has the same name and rows as before, with the task, prompt, reward, verdict and other numbers of each
rollout. Texts and turns remain for the examples only, and columns of tokens for none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from podium.core.errors import PodiumError
from podium.store.files import atomic_write
from podium.store.tables import read_schema

__all__ = ["examples_kept", "kept_text", "thin_oldest", "write_table"]

EXAMPLES = b"podium.examples"  # in the metadata of a thinned file: how many rollouts still have their text
FOR_ALL = ("task", "prompt", "domain", "stop", "failure", "source")  # texts that every row keeps
OF_TOKENS = ("turn.context", "turn.train_context")  # lists of tokens, as all columns token.* are


def write_table(file: Path, table: pa.Table) -> None:
    """Write a parquet file, whole or not at all.

    Log-probabilities and entropies hardly ever repeat, but the first of their four bytes do: they are stored byte by
    byte, which takes half the space. Everything else is stored by dictionary.
    """
    paths = {_path(field) for field in table.schema}
    split = {_path(f) for f in table.schema if f.type == pa.list_(pa.float32()) and f.name != "token.advantage"}
    settings: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
    settings |= {"use_dictionary": sorted(paths - split), "use_byte_stream_split": sorted(split)}
    atomic_write(file, lambda part: pq.write_table(table, part, **settings))


def _path(field: pa.Field) -> str:
    """The name of a column inside a file."""
    path, kind = field.name, field.type
    while pa.types.is_list(kind):
        path, kind = f"{path}.list.element", kind.value_type
    return str(path)


def thin_oldest(files: Sequence[Path], budget: float, examples: int, thinned: set[Path]) -> None:
    """Thin the oldest files so that whole ones take `budget` bytes at most; the newest stays whole in any case. Files
    in `thinned` have been thinned already, and those that are thinned now are added to it."""
    total = 0
    for file in reversed(files):
        total += file.stat().st_size
        if total > budget and file != files[-1] and file not in thinned:
            _thin(file, examples)
            thinned.add(file)


def examples_kept(file: Path) -> int | None:
    """How many rollouts of an iteration still have their text; None: the file is whole."""
    count = (read_schema(file).metadata or {}).get(EXAMPLES)
    return None if count is None else int(count)


def _thin(file: Path, examples: int) -> None:
    try:
        if examples_kept(file) is not None:
            return
        table = pq.read_table(file)
    except (PodiumError, OSError, pa.ArrowInvalid):
        return  # damaged: it is for readers to say so, and no reason to stop a run
    chosen = set(_spread(table["group"].to_pylist(), examples))
    places = pa.array([row if row in chosen else None for row in range(len(table))], pa.int64())
    columns = {}
    for field in table.schema:
        if field.name.startswith("token.") or field.name in OF_TOKENS:
            continue
        long = pa.types.is_nested(field.type) or (pa.types.is_string(field.type) and field.name not in FOR_ALL)
        columns[field.name] = table[field.name].take(places) if long else table[field.name]
    thinned = pa.table(columns).replace_schema_metadata({EXAMPLES: str(len(chosen)).encode()})
    write_table(file, thinned)


def _spread(groups: Sequence[Any], count: int) -> list[int]:
    """`count` rows: the first of each group, then the second of each, and so on."""
    seen: Counter[Any] = Counter()
    ranked = []
    for row, group in enumerate(groups):
        ranked.append((seen[group], row))
        seen[group] += 1
    return [row for _, row in sorted(ranked)[:count]]


def kept_text(files: Mapping[int, Path]) -> str:
    """What is kept of a run's rollouts, in words: `iterations 1–400: 8 examples each; 401–500: whole`."""
    kept = [(iteration, _kept(file)) for iteration, file in files.items()]
    spans = []
    for what, items in groupby(kept, key=lambda item: item[1]):
        numbers = [number for number, _ in items]
        span = f"{numbers[0]}–{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
        spans.append(f"{span}: {what}")
    return f"iterations {'; '.join(spans)}" if spans else "none"


def _kept(file: Path) -> str:
    try:
        count = examples_kept(file)
    except (PodiumError, OSError, pa.ArrowInvalid):
        return "not readable"
    if count is None:
        return "whole"
    return f"{count} examples each" if count else "summaries"
