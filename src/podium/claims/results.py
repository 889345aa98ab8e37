"""What was measured, as lines of JSON: a file for each arm of a cell, to which several processes may append."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.claims.claim import Cell, MethodArm, fingerprint, plain_data
from podium.core.errors import PodiumError

__all__ = ["Results", "RunKey"]


@dataclass(frozen=True)
class RunKey:
    """Which run of an arm: what it is for (gate, tune, test or a pair's apartness), its seed and learning rate."""

    kind: str
    seed: int
    lr: float | None
    beside: str = ""  # the fingerprint of the other arm, for what is measured of two


class Results:
    """The folder of results: `CELL/ARM.jsonl`, whose first line says what the arm is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Path, dict[RunKey, dict[str, Any]]] = {}

    def file(self, cell: Cell, arm: MethodArm) -> Path:
        return self.folder / f"{cell.name}-{fingerprint(cell)[:6]}" / f"{arm.method}-{fingerprint(arm)[:8]}.jsonl"

    def runs(self, cell: Cell, arm: MethodArm) -> dict[RunKey, dict[str, Any]]:
        """All runs of an arm, read once."""
        file = self.file(cell, arm)
        if file not in self._known:
            self._known[file] = dict(_read(file))
        return self._known[file]

    def add(self, cell: Cell, arm: MethodArm, key: RunKey, record: dict[str, Any]) -> None:
        """Append a run; a line that a killed process left unfinished is closed first."""
        file = self.file(cell, arm)
        self.runs(cell, arm)[key] = record
        file.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({**vars(key), "record": record}, separators=(",", ":"))
        with file.open("a+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            size = stream.seek(0, 2)
            if size == 0:
                stream.write((json.dumps({"cell": plain_data(cell), "arm": plain_data(arm)}) + "\n").encode())
            else:
                stream.seek(size - 1)
                if stream.read(1) != b"\n":
                    stream.write(b"\n")
            stream.write((line + "\n").encode())


def _read(file: Path) -> Iterator[tuple[RunKey, dict[str, Any]]]:
    if not file.is_file():
        return
    lines = file.read_text("utf-8").splitlines()
    for number, line in enumerate(lines[1:], 2):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the unfinished line of a process that was killed
        try:
            yield RunKey(row["kind"], row["seed"], row["lr"], row["beside"]), row["record"]
        except (KeyError, TypeError):
            raise PodiumError(
                f"{file}, line {number}, is not a result. Delete the line: its run is repeated."
            ) from None
