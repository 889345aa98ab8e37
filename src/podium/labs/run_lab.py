"""Running a study: its arms on the same tasks and random numbers, measured along the way."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch

from podium.analysis.paired_models import tally
from podium.core.errors import PodiumError, nearest
from podium.evaluation.measure import held_out
from podium.labs.findings import Findings, StudySize
from podium.labs.lab import Lab, LabFindings, LabSize
from podium.labs.lab_page import write_page
from podium.labs.reading import Snapshot
from podium.labs.studies import LABS
from podium.labs.trial import Trial, run_trial
from podium.sessions.compare import compare
from podium.sessions.train import Result
from podium.store.files import atomic_text, explained
from podium.store.run_directory import RunDirectory
from podium.training.run import Run

__all__ = ["lab", "measure_seed"]


def lab(
    study: str | Lab | Trial,
    *,
    out: str | Path | None = None,
    seeds: int | None = None,
    quick: bool = False,
    progress: Callable[[str], None] | None = None,
    jobs: int = 1,
    **size: int,
) -> Findings[Any]:
    """Run a study, or go on with it, and write `lab.json` and `lab.html`; `size` changes fields of its size, and
    `progress` is told what is done. With `jobs`, so many processes share the seeds of a study of the catalogue."""
    if isinstance(study, str):
        if study not in LABS:
            raise PodiumError(f"There is no lab {study!r}. {nearest(study, LABS)}")
        study = LABS[study]
    elif jobs > 1:
        raise PodiumError(f"jobs = {jobs}: processes share the seeds of a study that is named, such as 'mec-b'.")
    given = size if seeds is None else {**size, "seeds": seeds}
    sized = (study.quick if quick else study.size).replace(**given)
    path = Path(out) if out is not None else Path("runs") / f"lab-{study.slug}{'-quick' if quick else ''}"
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
    if jobs > 1:
        with ProcessPoolExecutor(min(jobs, sized.seeds), multiprocessing.get_context("spawn")) as pool:
            shares = {pool.submit(measure_seed, study.slug, path, sized, seed): seed for seed in range(sized.seeds)}
            for share in as_completed(shares):
                share.result()
                if progress is not None:
                    progress(f"seed {shares[share]}: done")
        progress = None  # what follows is read from disk
    findings = _measured(study, sized, path, progress)
    atomic_text(path / "lab.json", json.dumps(findings.as_dict(), indent=1))
    write_page(findings)
    return findings


def measure_seed(slug: str, path: Path, size: StudySize, seed: int) -> None:
    """One seed of a study of the catalogue, in a process of its own."""
    torch.set_num_threads(1)
    _measured(LABS[slug], size, path, None, seed)


def _measured(
    study: Lab | Trial, size: Any, path: Path, progress: Callable[[str], None] | None, only: int | None = None
) -> Findings[Any]:
    measure: Any = run_trial if isinstance(study, Trial) else _train_arms
    findings: Findings[Any] = measure(study, size, path, progress, only)
    return findings


def _train_arms(
    study: Lab, size: LabSize, path: Path, progress: Callable[[str], None] | None, only: int | None = None
) -> LabFindings:
    """Train the arms, and measure them along the way."""
    bench: dict[int, Snapshot] = {}  # the model before training, which all arms of a seed share
    watchers: dict[tuple[str, int], _Watcher] = {}

    def watch(name: str, seed: int, place: Path) -> _Watcher:
        return watchers.setdefault((name, seed), _Watcher(place, size, seed, bench))

    def trained(name: str, seed: int, result: Result) -> None:
        if progress is not None:
            progress(f"{name}, seed {seed}: {result.metrics[-1]['iteration']} iterations")

    arms = [build().replace(name=name) for name, build in study.arms.items()]
    # The watchers measure: the run's own evaluation is as small as can be.
    settings = {"eval_every": 0, "eval_tasks": 1, "eval_samples": 1, "checkpoint_every": 0, **study.settings}
    compare(
        arms,
        seeds=size.seeds,
        n=size.n,
        out=path,
        progress=trained,
        watch=watch,
        only=only,
        iterations=size.iterations,
        tasks=size.tasks,
        **settings,
    )
    seeds = range(size.seeds) if only is None else (only,)
    points = {name: [watchers[name, seed].points for seed in seeds] for name in study.arms}
    return LabFindings(study, size, path, points)


class _Watcher:
    """Measures a run at equal shares of its tokens, and keeps what it found beside the run."""

    def __init__(self, place: Path, size: LabSize, seed: int, bench: dict[int, Snapshot]) -> None:
        self.place, self.size, self.seed, self.bench = place, size, seed, bench
        self.file = place / "lab.json"
        self.points: list[Snapshot] = []
        self.measured = {k: getattr(size, k) for k in ("points", "eval_tasks", "samples")}
        if self.file.is_file():
            stored = json.loads(self.file.read_text(encoding="utf-8"))
            if stored["measured"] != self.measured:
                raise PodiumError(f"{place} was measured with other settings. Choose another --out.")
            self.points = [Snapshot.from_dict(p) for p in stored["points"]]

    def __call__(self, run: Run, line: Mapping[str, Any]) -> None:
        due = self.size.points if run.finished else int(self._share(run) * self.size.points)
        if due < len(self.points):
            return
        point = self._measure(run)
        self.points += [point] * (due + 1 - len(self.points))  # a long iteration may pass several
        stored = {"measured": self.measured, "points": [p.as_dict() for p in self.points]}
        atomic_text(self.file, json.dumps(stored))

    @staticmethod
    def _share(run: Run) -> float:
        """How much of the run is done, before its end."""
        budget = run.config.token_budget
        done = run.iteration / run.config.iterations if budget is None else run.tokens / budget
        return min(done, 1 - 1e-9)

    def _measure(self, run: Run) -> Snapshot:
        if run.iteration == 0 and self.seed in self.bench:
            return self.bench[self.seed]
        size = self.size
        groups = held_out(
            run.driver,
            tasks=size.eval_tasks,
            samples=size.samples,
            max_tokens=run.config.max_tokens,
            seed=self.seed,
            method=run.config.method,
        )
        point = Snapshot(run.iteration, run.tokens, tally(groups), self._logged())
        if run.iteration == 0:
            self.bench[self.seed] = point
        return point

    def _logged(self) -> dict[str, float]:
        """The means of the run's metrics since the point before; of their magnitudes under the name |metric|."""
        since = self.points[-1].iteration if self.points else 0
        lines = [m for m in RunDirectory(self.place).metrics() if m["iteration"] > since]
        names = [k for k, v in (lines[-1] if lines else {}).items() if isinstance(v, (int, float))]
        values = {name: np.array([m[name] for m in lines if name in m], dtype=float) for name in names}
        sizes = {f"|{name}|": float(np.abs(x).mean()) for name, x in values.items()}
        return {name: float(x.mean()) for name, x in values.items()} | sizes
