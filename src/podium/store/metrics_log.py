"""metrics.jsonl has one line per iteration, each with a checksum. Damaged lines are set aside, and the others stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError
from podium.store.files import atomic_write, explained
from podium.store.sealed import Unsealed, seal, unseal

__all__ = ["DAMAGED", "DamagedLine", "MetricsLog", "append_line", "read_log", "rewind_log"]

DAMAGED = "metrics.damaged.jsonl"


@dataclass(frozen=True)
class DamagedLine:
    """A line that is left out, and why."""

    number: int  # from 1 on
    reason: str
    raw: bytes


@dataclass(frozen=True)
class MetricsLog:
    """What a file of metrics holds."""

    lines: tuple[dict[str, Any], ...]  # in the order of iterations
    raws: tuple[bytes, ...]  # the texts of `lines`
    damaged: tuple[DamagedLine, ...]

    def note(self, file: Path) -> str:
        """What is damaged, in a sentence; empty: nothing."""
        if not self.damaged:
            return ""
        first, *others = self.damaged
        more = f", and {len(others)} more" if others else ""
        return f"{file}: line {first.number} is damaged ({first.reason}){more}"


def append_line(file: Path, metrics: Mapping[str, Any]) -> None:
    """Append the metrics of an iteration."""
    with explained(file), file.open("a", encoding="utf-8") as out:
        out.write(seal(metrics) + "\n")


def read_log(file: Path) -> MetricsLog:
    """The lines of a file, and those that are damaged. A last line that a killed process left unfinished is dropped."""
    try:
        content = file.read_bytes() if file.exists() else b""
    except OSError as error:
        raise PodiumError(f"{file} cannot be read: {error.strerror or error}.") from error
    *rows, rest = content.split(b"\n")
    intact: dict[int, tuple[dict[str, Any], bytes]] = {}
    damaged: list[DamagedLine] = []
    checked = False  # whether an earlier line had a check: files that older versions began have lines without one
    for number, raw in enumerate([*rows, rest], 1):
        if not raw.strip():
            continue
        try:
            line, sealed = _line(raw, checked)
            if line["iteration"] in intact:
                raise Unsealed(f"another line of iteration {line['iteration']}")
        except Unsealed as error:
            if number <= len(rows):
                damaged.append(DamagedLine(number, str(error), raw))
            continue
        checked = checked or sealed
        intact[line["iteration"]] = line, raw
    ordered = [intact[iteration] for iteration in sorted(intact)]
    return MetricsLog(tuple(line for line, _ in ordered), tuple(raw for _, raw in ordered), tuple(damaged))


def rewind_log(file: Path, iteration: int) -> str:
    """Keep the lines up to an iteration, and move damaged ones to a separate file. Returns sentences on what was
    damaged and what is missing."""
    log = read_log(file)
    if log.damaged:
        aside = file.with_name(DAMAGED)
        with explained(aside), aside.open("ab") as out:
            out.writelines(line.raw + b"\n" for line in log.damaged)
    pairs = zip(log.lines, log.raws, strict=True)
    kept = b"".join(raw + b"\n" for line, raw in pairs if line["iteration"] <= iteration)

    def write(part: Path) -> None:
        part.write_bytes(kept)

    atomic_write(file, write)
    present = {line["iteration"] for line in log.lines}
    missing = [number for number in range(iteration + 1) if number not in present]
    notes = [f"{log.note(file)}: moved to {DAMAGED}."] if log.damaged else []
    notes += [f"{file} has no metrics of {_numbers(missing)}."] if missing else []
    return " ".join(notes)


def _line(raw: bytes, checked: bool) -> tuple[dict[str, Any], bool]:
    line, sealed = unseal(raw)
    if checked and not sealed:
        raise Unsealed("it has no check")
    iteration = line.get("iteration")
    if not isinstance(iteration, int) or isinstance(iteration, bool) or iteration < 0:
        raise Unsealed("it has no iteration")
    return line, sealed


def _numbers(iterations: Sequence[int]) -> str:
    if len(iterations) == 1:
        return f"iteration {iterations[0]}"
    return f"{len(iterations)} iterations, the first of them {iterations[0]}"
