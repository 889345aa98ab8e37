"""Training from start to end: the run directory, the loop, evaluations, checkpoints, and a clean stop."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from podium import worlds
from podium.core.errors import PodiumError, nearest
from podium.evaluation.measure import failure_note, held_out, measure
from podium.method import Method
from podium.methods import get
from podium.sessions.recover import recover
from podium.store.run_directory import RunDirectory
from podium.training.build import build_run
from podium.training.config import Config, Optimizer
from podium.training.loop import iterate
from podium.training.memory_plan import suggest_settings
from podium.training.preflight import check_fresh, check_resources
from podium.training.run import Run, is_due
from podium.training.stored_config import stored_config
from podium.training.trackers import Trackers, require
from podium.worlds import World

__all__ = ["Progress", "Result", "ShowsStages", "configure", "resume", "train"]

Progress = Callable[[Run, Mapping[str, Any]], None]  # is called after each iteration with its metrics
Tell = Callable[[str], None]


@runtime_checkable
class ShowsStages(Protocol):
    """A `Progress` that also shows what a person waits for before the first iteration."""

    def stage(self, text: str) -> None: ...


@dataclass(frozen=True)
class Result:
    """The outcome of a training run."""

    path: Path
    metrics: list[dict[str, Any]]
    finished: bool  # False: stopped before its last iteration; `resume` continues it

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        return [line for line in self.metrics if "eval.pass@1" in line]


def configure(method: str | Method = "grpo", **settings: Any) -> Config:
    """A configuration from a method and loose settings: those of `Config`, of `Optimizer`, and of the world."""
    value = method if isinstance(method, Method) else get(method)
    of_optimizer = {k: settings.pop(k) for k in list(settings) if k in Optimizer.field_names()}
    of_run = {k: settings.pop(k) for k in list(settings) if k in Config.field_names()}
    if of_optimizer:
        of_run["optimizer"] = of_run.get("optimizer", Optimizer()).replace(**of_optimizer)
    if settings:  # what is left belongs to the world
        _check_loose(settings, of_run.get("world", Config.world), value)
        of_run["world_settings"] = {**(of_run.get("world_settings") or {}), **settings}
    return Config(method=value, **of_run)


def _check_loose(settings: Mapping[str, Any], world: str | World, method: Method) -> None:
    """Refuse a setting that neither the run nor an embedded world has; other worlds refuse it themselves."""
    if not isinstance(world, str) or world not in worlds.EMBEDDED:
        return
    valid = [*Config.field_names(), *Optimizer.field_names(), *worlds.EMBEDDED[world].field_names()]
    for name in settings:
        if name not in valid:
            raise PodiumError(
                f"Neither the run nor the world {world!r} has a setting {name!r}. {nearest(name, valid)} "
                f"A setting of the method is given with it: podium.methods.get({method.name!r}, {name}=…)."
            )


def train(
    method: str | Method | Config = "grpo",
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    track: str | Sequence[str] = (),
    tell: Tell | None = None,
    **settings: Any,
) -> Result:
    """Train a model with a method on a world, into a run directory.

    `progress` is called after each iteration, and shows stages before the first one if it `ShowsStages`. `tell` gets
    notes on how the model is computed, line by line, before anything is. `track`: tensorboard, wandb.
    """
    config = method if isinstance(method, Config) else configure(method, **settings)
    trackers = require(track)
    path = Path(out) if out is not None else _fresh_path(config)
    check_resources(out=path, device=config.device, model=config.model)
    check_fresh(path)
    directory = RunDirectory(path)
    with suggest_settings():
        run = build_run(config, _stage(progress))  # before anything is written: most mistakes show here
        with closing(run), _locked(directory):
            directory.write_config(run.config.to_yaml())
            return _run_to_end(run, directory, progress, trackers, tell)


def resume(
    path: str | Path,
    *,
    config: Config | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    track: str | Sequence[str] = (),
    tell: Tell | None = None,
    trust: bool = False,
) -> Result:
    """Continue a run from its last sound checkpoint, perhaps on another device; on a CPU bit by bit.

    Code that its configuration names must stand in the current project, unless `trust`.
    """
    trackers = require(track)
    directory = RunDirectory(path)
    stored, damaged = stored_config(directory, trust=trust)
    if config is not None and config.dtype is None:
        config = config.replace(dtype=stored.dtype)
    if config is not None and config != stored:
        changed = [k for k in Config.field_names() if getattr(config, k) != getattr(stored, k)]
        raise PodiumError(
            f"The run {path} was made with other settings ({', '.join(changed)}). Start a new run with --out."
        )
    config = stored.replace(device=device or stored.device)
    check_resources(out=directory.path, device=config.device)
    with suggest_settings(), _locked(directory), closing(build_run(config, _stage(progress))) as run:
        if damaged:
            directory.write_config(stored.to_yaml())
        recover(run, directory)
        return _run_to_end(run, directory, progress, trackers, tell)


def _stage(progress: Progress | None) -> Tell:
    return progress.stage if isinstance(progress, ShowsStages) else lambda text: None


@contextmanager
def _locked(directory: RunDirectory) -> Iterator[None]:
    directory.open()
    try:
        yield
    finally:
        directory.close()


def _run_to_end(
    run: Run, directory: RunDirectory, progress: Progress | None, trackers: Sequence[str], tell: Tell | None
) -> Result:
    config = run.config
    if tell is not None:
        for note in run.policy.notes:
            tell(note)
    with (
        closing(Trackers(trackers, directory.path, config, run.iteration)) as tracked,
        _reproducible(run.policy.device),
        _stop_on_interrupt() as stopped,
    ):
        watchers: list[Progress] = [tracked] if progress is None else [progress, tracked]
        if run.iteration == 0 and not directory.metrics():
            _stage(progress)(_first_evaluation(run))
            before = {"iteration": 0, **_evaluation(run)}
            run.measured(before)
            _report(run, directory, before, watchers)
        while not run.finished:
            batch, metrics = iterate(run, _evaluation)
            directory.write_rollouts(run.iteration, batch)
            _report(run, directory, metrics, watchers)
            if run.finished or stopped or is_due(run.iteration, config.checkpoint_every):
                directory.write_checkpoint(run.iteration, run.save, config.keep_checkpoints)
            if stopped:
                break
    return Result(directory.path, directory.metrics(), run.finished)


@contextmanager
def _stop_on_interrupt() -> Iterator[list[int]]:
    """Ctrl-C ends the run after the current iteration, with a checkpoint; a second one ends it at once."""
    stopped: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def stop(number: int, _: object) -> None:
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _report(run: Run, directory: RunDirectory, metrics: Mapping[str, Any], watchers: Sequence[Progress]) -> None:
    directory.append_metrics(metrics)
    for watcher in watchers:
        watcher(run, metrics)


def _first_evaluation(run: Run) -> str:
    compiled = ", compiling its kernels first" if run.policy.device.type == "cuda" else ""
    return f"Evaluating {run.config.model} on {run.config.eval_tasks} held-out tasks before training{compiled}"


def _evaluation(run: Run) -> dict[str, Any]:
    """The metrics of the policy on held-out tasks."""
    config = run.config
    groups = held_out(
        run.driver,
        tasks=config.eval_tasks,
        samples=config.eval_samples,
        max_tokens=config.max_tokens or run.world.max_tokens,
        seed=config.seed,
    )
    measures = measure(groups, ks=(1,))
    metrics: dict[str, Any] = {f"eval.{name}": m.mean for name, m in measures.items()}
    if "failed" in measures:
        metrics["eval.failure"] = failure_note(groups)
    return metrics | {"eval.pass@1.low": measures["pass@1"].low, "eval.pass@1.high": measures["pass@1"].high}


@contextmanager
def _reproducible(device: torch.device) -> Iterator[None]:
    """Deterministic algorithms, on which exact resumption rests. Not on a GPU, where every write into a cache would
    become a sort."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(before or device.type == "cpu", warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=True)


def _fresh_path(config: Config) -> Path:
    """runs/METHOD-WORLD-TIME: a new directory, where none was named."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = config.world if isinstance(config.world, str) else config.world.name
    world = name.split(":")[0].rsplit("/", 1)[-1]
    return Path("runs") / re.sub(r"[^\w@.-]+", "-", f"{config.method.name}-{world}-{stamp}")
