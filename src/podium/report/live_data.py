"""What the live page shows, read from run directories. No torch is imported, so a folder of runs opens at once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from podium.core.errors import PodiumError
from podium.store.metrics_log import read_log

__all__ = ["RunBrowser", "find_runs"]

ROLLOUT = re.compile(r"iteration-(\d+)\.parquet")
NAMED = {
    "method": re.compile(r"^    name: (.+)$", re.M),
    "world": re.compile(r"^world: (.+)$", re.M),
    "level": re.compile(r"^  level: (\d+)$", re.M),
    "iterations": re.compile(r"^iterations: (\d+)$", re.M),
    "seed": re.compile(r"^seed: (\d+)$", re.M),
}
TAIL = 16384  # bytes at the end of a file of metrics that are read for its newest lines
VIEWS = 8  # X-rays that are kept
COLUMNS = ("task", "group", "prompt", "text", "reward", "correct", "turn.length")


def find_runs(paths: Sequence[Path]) -> dict[str, Path]:
    """The runs among some directories and below them, by the name that the page shows."""
    found: dict[str, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise PodiumError(f"There is no directory {path}.")
        inside = sorted(_below(path))
        if not inside and len(paths) > 1:
            raise PodiumError(f"{path} is not a run, and holds none.")
        for run in inside:
            name = run.name if run == path else str(run.relative_to(path))
            found[name if name not in found else str(run)] = run
    return found


def _below(path: Path, depth: int = 3) -> Iterable[Path]:
    """The run directories at a path: it is one itself, or they are a few folders below."""
    if (path / "config.yaml").is_file():
        yield path
        return
    if depth:
        with os.scandir(path) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
        for folder in folders:
            yield from _below(folder, depth - 1)


@dataclass
class RunBrowser:
    """The runs at some paths, read again when their files change."""

    paths: Sequence[Path]
    _seen: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = field(default_factory=dict)  # by run: stamp, overview
    _named: dict[Path, dict[str, str]] = field(default_factory=dict)
    _views: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)  # the newest X-rays
    _one: Lock = field(default_factory=Lock)  # of what takes a model's memory: one at a time

    def runs(self) -> list[dict[str, Any]]:
        """A line on each run, those that changed last first. `version` changes with the metrics."""
        return sorted(
            (self._overview(name, path) for name, path in find_runs(self.paths).items()),
            key=lambda run: (-run["changed"], run["name"]),
        )

    def path(self, name: str) -> Path:
        """The directory of a run that the page shows; nothing else can be read."""
        found = find_runs(self.paths)
        if name not in found:
            raise PodiumError(f"There is no run {name!r} here.")
        return found[name]

    def metrics(self, name: str, since: int) -> dict[str, Any]:
        """The lines of metrics after an iteration; `whole` says that they replace what was there, since the run was
        resumed from an earlier one."""
        lines = read_log(self.path(name) / "metrics.jsonl").lines
        whole = since < 0 or not lines or int(lines[-1]["iteration"]) < since
        return {"whole": whole, "lines": [line for line in lines if whole or line["iteration"] > since]}

    def rollouts(self, name: str, iteration: int | None) -> dict[str, Any]:
        """The rollouts of an iteration, a line each."""
        with self._one:
            from podium.store.tables import read_rows
        path = self.path(name)
        numbers = recorded_iterations(path)
        if not numbers:
            raise PodiumError(f"{name} has no rollouts yet.")
        chosen = numbers[-1] if iteration is None else iteration
        if chosen not in numbers:
            raise PodiumError(f"{name} has no rollouts of iteration {chosen}.")
        rows = read_rows(path / "rollouts" / f"iteration-{chosen:06d}.parquet", COLUMNS)
        rewards: dict[Any, set[float]] = {}
        for row in rows:
            rewards.setdefault(row["group"], set()).add(row["reward"])
        shown = [
            {
                **{name: row[name] for name in ("task", "prompt", "text", "reward")},
                "correct": bool(row["correct"]),
                "length": sum(row["turn.length"] or ()),
                "flat": len(rewards[row["group"]]) == 1,
            }
            for row in rows
        ]
        return {"iteration": chosen, "rollouts": shown}

    def xray(self, name: str, iteration: int | None, methods: Sequence[str]) -> dict[str, Any]:
        """Rollouts token by token, as recorded, or as methods of the catalogue would have treated them."""
        path = self.path(name)
        with self._one:
            from podium.sessions.xray import recorded_view, xray

            number = (recorded_iterations(path) or [0])[-1] if iteration is None else iteration
            key = (path, number, tuple(methods))
            if key not in self._views:
                made = xray(path, methods, iteration=iteration) if methods else recorded_view(path, iteration=iteration)
                self._views = {**dict(list(self._views.items())[1 - VIEWS :]), key: made}
            return self._views[key]

    def findings(self, names: Sequence[str]) -> dict[str, Any]:
        """By run, what the doctor finds."""
        paths = {name: self.path(name) for name in names}
        with self._one:
            from podium.sessions.doctor import examine_runs

            found = examine_runs(list(paths.values()))
        return {name: [asdict(each) for each in found[str(path)]] for name, path in paths.items()}

    def _overview(self, name: str, path: Path) -> dict[str, Any]:
        file = path / "metrics.jsonl"
        try:
            stat = file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            stamp = (0, 0)
        held = self._seen.get(path)
        if held is None or held[0] != stamp:
            held = (stamp, {**self._settings(path), **_newest(file, stamp[1]), "recorded": recorded_iterations(path)})
            self._seen[path] = held
        return {"name": name, "version": f"{stamp[0]}-{stamp[1]}", "changed": stamp[0] / 1e9, **held[1]}

    def _settings(self, path: Path) -> dict[str, Any]:
        """What config.yaml says, found by its lines: reading all of it would take longer than everything else."""
        if path not in self._named:
            text = (path / "config.yaml").read_text("utf-8", errors="replace")
            found = {name: pattern.search(text) for name, pattern in NAMED.items()}
            self._named[path] = {name: match[1].strip("'\"") for name, match in found.items() if match}
            without = re.sub(r"^seed: .*$", "", text, flags=re.M)
            self._named[path]["setting"] = f"{hash(without):x}"  # runs that differ in the seed alone have the same
        named = self._named[path]
        level = f" {named['level']}" if "level" in named else ""
        return {
            "method": named.get("method", "?"),
            "world": named.get("world", "?") + level,
            "iterations": int(named.get("iterations", 0)),
            "seed": int(named.get("seed", 0)),
            "setting": named["setting"],
        }


def recorded_iterations(path: Path) -> list[int]:
    """The iterations whose rollouts a run has written."""
    try:
        names = os.listdir(path / "rollouts")
    except OSError:
        return []
    return sorted(int(match[1]) for match in map(ROLLOUT.fullmatch, names) if match)


def _newest(file: Path, size: int) -> dict[str, Any]:
    """The newest iteration and held-out pass rate, from the end of a file of metrics."""
    newest: dict[str, Any] = {"iteration": 0, "reward": None, "eval": None}
    if not size:
        return newest
    with file.open("rb") as source:
        source.seek(max(0, size - TAIL))
        rows = source.read().split(b"\n")
    for raw in rows[(1 if size > TAIL else 0) :]:
        try:
            line = json.loads(raw)
        except ValueError:  # still being written, or damaged
            continue
        if isinstance(line, dict):
            newest["iteration"] = line.get("iteration", newest["iteration"])
            newest["reward"] = line.get("reward", newest["reward"])
            newest["eval"] = line.get("eval.pass@1", newest["eval"])
    return newest
