"""What studies say with many seeds, on a machine of many cores: their seeds share its cores, not those of one study.

    python -m tools.verdicts FOLDER                                   # the studies of agents, eight minutes on 16 cores
    python -m tools.verdicts FOLDER ikea carr --seeds 8 --minutes 30

The first seed of every study runs before the second of any. When the time is up, seeds under way are stopped, and the
verdicts of what is complete are printed and written to FOLDER/verdicts.md. The same command goes on where it stopped.
`podium lab STUDY --out FOLDER/STUDY --seeds K` reads the same results.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import takewhile
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from podium import labs
from podium.core.errors import nearest
from podium.labs.findings import StudySize
from podium.labs.run_lab import measure_seed

# Those that take longest first. The others of this kind were decided by fewer seeds: mec-b, read, earl.
STUDIES = (
    *("ikea", "search-r2", "reseek", "carr", "nous", "advevo-marl", "adalign-llm-rivals", "adalign-llm"),
    *("grpo-tcr", "inspo", "sparkle", "oni", "knowrl", "training-free-grpo"),
)
GRACE = 5  # seconds in which a run may write its checkpoint
Job = tuple[str, int]  # a study and a seed


def size_of(study: str, seeds: int, quick: bool) -> StudySize:
    """The size of a study with so many seeds."""
    own = labs.LABS[study]
    size: StudySize = own.quick if quick else own.size
    return size.replace(seeds=seeds)


def mark(folder: Path, job: Job, ending: str) -> Path:
    """The file that says that a seed is complete, or what went wrong in it."""
    return folder / job[0] / f"seed-{job[1]}.{ending}"


def measure(folder: Path, job: Job, size: StudySize) -> None:
    """One seed of a study, in a process of its own."""
    study, seed = job
    with mark(folder, job, "log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        begun = time.monotonic()
        try:
            measure_seed(study, folder / study, size, seed)
        except Exception:
            traceback.print_exc()
            raise SystemExit(1) from None
        mark(folder, job, "done").write_text(f"{time.monotonic() - begun:.0f} s\n")


def run_jobs(folder: Path, jobs: Sequence[tuple[Job, StudySize]], cores: int, end: float) -> None:
    """Run seeds, so many at a time, until `end`."""
    spawn = multiprocessing.get_context("spawn")
    waiting, running = list(jobs), dict[int, tuple[SpawnProcess, Job]]()
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < cores:
            job, size = waiting.pop(0)
            (folder / job[0]).mkdir(parents=True, exist_ok=True)
            process = spawn.Process(target=measure, args=(folder, job, size))
            process.start()
            running[process.sentinel] = process, job
        for ended in wait(list(running), timeout=max(0.0, end - time.monotonic())):
            assert isinstance(ended, int)
            process, (study, seed) = running.pop(ended)
            process.join()
            state = "done" if process.exitcode == 0 else f"failed, see {mark(folder, (study, seed), 'log')}"
            print(f"{study}, seed {seed}: {state}", flush=True)
    for process, _ in running.values():
        process.terminate()
    for process, (study, seed) in running.values():
        process.join(GRACE)
        process.kill()
        print(f"{study}, seed {seed}: stopped, the time is up", flush=True)


def complete(folder: Path, study: str, seeds: int) -> int:
    """How many of the first seeds of a study are complete."""
    return len(list(takewhile(lambda seed: mark(folder, (study, seed), "done").is_file(), range(seeds))))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("studies", nargs="*", default=STUDIES)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=7.5)
    parser.add_argument("--quick", action="store_true", help="the quick size of the studies")
    given = parser.parse_args(arguments)
    end = time.monotonic() + 60 * given.minutes
    for study in given.studies:
        if study not in labs.LABS:
            raise SystemExit(f"There is no lab {study!r}. {nearest(study, labs.LABS)}")
    os.environ["OMP_NUM_THREADS"] = "1"
    given.folder.mkdir(parents=True, exist_ok=True)
    jobs = [(study, seed) for seed in range(given.seeds) for study in given.studies]
    missing = [job for job in jobs if not mark(given.folder, job, "done").is_file()]
    print(f"{len(jobs) - len(missing)} of {len(jobs)} seeds are complete.", flush=True)
    run_jobs(given.folder, [(job, size_of(job[0], given.seeds, given.quick)) for job in missing], given.jobs, end)
    written = ["| study | the paper says that | seeds | here | verdict |", "| --- | --- | --- | --- | --- |"]
    for study in given.studies:
        if seeds := complete(given.folder, study, given.seeds):
            found = labs.lab(study, out=given.folder / study, quick=given.quick, seeds=seeds)
            written += [f"| `{study}` | {v.text} | {seeds} | {v.found} | {v.word} |" for v in found.verdicts()]
    text = "\n".join(written) + "\n"
    (given.folder / "verdicts.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
