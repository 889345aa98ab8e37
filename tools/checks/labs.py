"""Several labs at once: processes share the seeds of all of them, on a machine with many cores.

    python -m tools.checks.labs [SLUG …] [--processes 16] [--seconds 450] [--out runs/labs]

Without names, the labs of `PLAN`, each with its size and number of seeds. Seed 0 of every lab comes first, then seed 1,
and so on; once `--seconds` are over, what is not finished is given up. What a seed came to is `OUT/SLUG/seed-K.json`,
and nothing else is kept: a seed that has such a file is not run again, so the same command goes on, and files of
another machine may be added. `OUT/labs.json` has the table and the verdicts of each lab, over its seeds from 0 on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections.abc import Mapping
from itertools import count, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from podium.core.errors import PodiumError
from podium.labs import LABS
from podium.labs.findings import Findings, StudySize
from podium.labs.lab import Lab, LabFindings, LabSize
from podium.labs.reading import Snapshot
from podium.labs.run_lab import measure_seed
from podium.labs.trial import Trial, run_trial
from podium.store.files import atomic_text

__all__ = ["PLAN", "findings_of", "measure"]

# What differs from the default size of each. Those that take longest come first.
PLAN: Mapping[str, Mapping[str, int]] = {
    "oni": {"seeds": 8, "iterations": 6, "tasks": 8, "points": 1, "eval_tasks": 16, "samples": 8},
    "dpa": {"seeds": 12},
    "arenarl": {"seeds": 12},
    "info-consistent-grpo": {"seeds": 12},
    "simpo": {"seeds": 12},
    "multirole-r1": {"seeds": 12},
    "think-rm-policies": {"seeds": 12},
    "clinical-r1": {"seeds": 12},
    "fleming-r1": {"seeds": 12},
    # Search, tools and several agents, in their default sizes; mec-b, read and earl were decided by fewer seeds.
    "ikea": {"seeds": 12},
    "search-r2": {"seeds": 12},
    "reseek": {"seeds": 12},
    "carr": {"seeds": 12},
    "nous": {"seeds": 12},
    "advevo-marl": {"seeds": 12},
    "adalign-llm-rivals": {"seeds": 12},
    "adalign-llm": {"seeds": 12},
    "grpo-tcr": {"seeds": 12},
    "inspo": {"seeds": 12},
    "sparkle": {"seeds": 12},
    "knowrl": {"seeds": 12},
    "training-free-grpo": {"seeds": 12},
}


def sized(slug: str) -> StudySize:
    """The size that a lab is run with."""
    size: StudySize = LABS[slug].size.replace(**PLAN.get(slug, {}))
    return size


def measure(slug: str, size: StudySize, seed: int, out: Path) -> float:
    """Run one seed of a lab, unless that is done, and keep what it came to; the seconds of CPU."""
    begun, file = time.process_time(), out / slug / f"seed-{seed}.json"
    if isinstance(LABS[slug], Trial):
        measure_seed(slug, out / slug, size, seed)
    elif not file.is_file():
        with TemporaryDirectory() as folder:
            measure_seed(slug, Path(folder), size, seed)
            points = {arm: _read(_place(Path(folder), arm, seed) / "lab.json")["points"] for arm in LABS[slug].arms}
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_text(file, json.dumps({"of": _settings(size), "points": points}))
    return time.process_time() - begun


def _place(folder: Path, arm: str, seed: int) -> Path:
    """Where a lab keeps a run."""
    return folder / re.sub(r"[^\w.-]+", "-", arm) / f"seed-{seed}"


def _settings(size: StudySize) -> dict[str, Any]:
    return {name: value for name, value in size.settings().items() if name != "seeds"}


def _read(file: Path) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return stored


def findings_of(slug: str, size: StudySize, out: Path) -> Findings[Any] | None:
    """What a lab has come to over its seeds from 0 on; None without any."""
    study, path = LABS[slug], out / slug
    seeds = len(list(takewhile(lambda seed: _finished(study, path / f"seed-{seed}.json"), count())))
    if not seeds:
        return None
    size = size.replace(seeds=seeds)
    if isinstance(study, Trial):
        return run_trial(study, size, path, None)
    assert isinstance(size, LabSize)
    stored = [_read(path / f"seed-{seed}.json") for seed in range(seeds)]
    for seed, kept in enumerate(stored):
        if kept["of"] != _settings(size):
            raise PodiumError(f"{path / f'seed-{seed}.json'} was measured with another size. Choose another --out.")
    points = {
        arm: [[Snapshot.from_dict(point) for point in kept["points"][arm]] for kept in stored] for arm in study.arms
    }
    return LabFindings(study, size, path, points)


def _finished(study: Lab | Trial, file: Path) -> bool:
    """Whether a seed has all arms: a trial writes its file after each of them."""
    return file.is_file() and set(_read(file)["values" if isinstance(study, Trial) else "points"]) >= set(study.arms)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=450.0)
    parser.add_argument("--out", type=Path, default=Path("runs/labs"))
    given = parser.parse_args()
    names = given.names or list(PLAN)
    for name in set(names) - set(LABS):
        parser.error(f"there is no lab {name!r}")
    sizes = {name: sized(name) for name in names}
    most = max(size.seeds for size in sizes.values())
    order = [(name, seed) for seed in range(most) for name in names if seed < sizes[name].seeds]
    end, faults = time.monotonic() + given.seconds, 0
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:  # which is ended on leaving
        jobs = {job: pool.apply_async(measure, (job[0], sizes[job[0]], job[1], given.out)) for job in order}
        for (name, seed), job in jobs.items():
            try:
                print(f"{name}, seed {seed}: {job.get(max(end - time.monotonic(), 0)):.0f} s of CPU", flush=True)
            except multiprocessing.TimeoutError:
                print(f"{name}, seed {seed}: not finished", flush=True)
            except Exception as problem:  # the other labs go on
                faults += 1
                print(f"{name}, seed {seed}: {type(problem).__name__}: {problem}", flush=True)
    found = {name: findings for name in names if (findings := findings_of(name, sizes[name], given.out))}
    for name, findings in found.items():
        print(f"\n{name}, {findings.size.seeds} seeds. {findings.found()}\n{findings.agreement()}")
    given.out.mkdir(parents=True, exist_ok=True)
    atomic_text(given.out / "labs.json", json.dumps({name: f.as_dict() for name, f in found.items()}, indent=1))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
