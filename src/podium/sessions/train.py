"""Training from start to end: a run directory, the loop, evaluation, checkpoints, and a clean stop."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from podium import worlds
from podium.core.errors import PodiumError, nearest
from podium.evaluation.measure import failure_note, held_out, measure
from podium.method import Method
from podium.methods import get
from podium.store.run_directory import RunDirectory
from podium.training.config import Config, Optimizer
from podium.training.loop import iterate
from podium.training.memory_plan import named_knobs
from podium.training.run import Run
from podium.training.trackers import Trackers, require
from podium.worlds import World

__all__ = ["Progress", "Result", "configure", "resume", "train"]

Progress = Callable[[Run, Mapping[str, Any]], None]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What a training run came to."""

    path: Path
    metrics: list[dict[str, Any]]
    finished: bool  # False: stopped before its last iteration; `resume` goes on

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        return [line for line in self.metrics if "eval.pass@1" in line]


def configure(method: str | Method = "grpo", **settings: Any) -> Config:
    """A configuration from a method and loose settings: those of `Config`, of `Optimizer`, and the world's own."""
    value = method if isinstance(method, Method) else get(method)
    rate = {k: settings.pop(k) for k in list(settings) if k in Optimizer.field_names()}
    own = {k: settings.pop(k) for k in list(settings) if k in Config.field_names()}
    if rate:
        own["optimizer"] = own.get("optimizer", Optimizer()).replace(**rate)
    if settings:  # what is left belongs to the world
        _check_loose(settings, own.get("world", Config.world), value)
        own["world_settings"] = {**(own.get("world_settings") or {}), **settings}
    return Config(method=value, **own)


def _check_loose(settings: Mapping[str, Any], world: str | World, method: Method) -> None:
    """Refuse what neither the run nor an embedded world knows, in words that fit either; other worlds refuse it
    themselves."""
    if not isinstance(world, str) or world not in worlds.EMBEDDED:
        return
    known = [*Config.field_names(), *Optimizer.field_names(), *worlds.EMBEDDED[world].field_names()]
    for name in settings:
        if name not in known:
            raise PodiumError(
                f"Neither the run nor the world {world!r} has a setting {name!r}. {nearest(name, known)} "
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
    """Train a model with a method on a world, into a run directory; `track`: tensorboard, wandb.

    `tell` is given what there is to know of how the model is treated, line by line, before anything is computed.
    """
    config = method if isinstance(method, Config) else configure(method, **settings)
    trackers = require(track)
    path = Path(out) if out is not None else _fresh_path(config)
    directory = RunDirectory(path)
    if directory.checkpoints() or (path / "metrics.jsonl").exists():
        raise PodiumError(
            f"{path} already holds a run. Resume it (podium train --resume {path}) or choose another --out."
        )
    with named_knobs():
        run = Run.make(config)  # before anything is written: most mistakes show here
        with closing(run), _opened(directory):
            directory.write_config(run.config.to_yaml())
            return _go(run, directory, progress, trackers, tell)


def resume(
    path: str | Path,
    *,
    config: Config | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    track: str | Sequence[str] = (),
    tell: Tell | None = None,
) -> Result:
    """Go on with a run where its last checkpoint left it, perhaps on another device; on a CPU to the bit."""
    trackers = require(track)
    directory = RunDirectory(path)
    stored = Config.of_run(directory)
    if config is not None and config.dtype is None:
        config = config.replace(dtype=stored.dtype)
    if config is not None and config != stored:
        changed = [k for k in Config.field_names() if getattr(config, k) != getattr(stored, k)]
        raise PodiumError(
            f"The run {path} was made with other settings ({', '.join(changed)}). Start a new run with --out."
        )
    made = stored.replace(device=device or stored.device)
    with named_knobs(), _opened(directory), closing(Run.make(made)) as run:
        if directory.checkpoints():
            run.restore(directory.checkpoints()[-1])
        directory.rewind(run.iteration or -1)
        run.tokens = sum(line.get("tokens", 0) for line in directory.metrics())
        return _go(run, directory, progress, trackers, tell)


@contextmanager
def _opened(directory: RunDirectory) -> Iterator[None]:
    directory.open()
    try:
        yield
    finally:
        directory.close()


def _go(
    run: Run, directory: RunDirectory, progress: Progress | None, trackers: Sequence[str], tell: Tell | None
) -> Result:
    config = run.config
    if tell is not None:
        for note in run.policy.notes:
            tell(note)
    with (
        closing(Trackers(trackers, directory.path, config, run.iteration)) as tracked,
        _reproducible(run.policy.device),
        _interrupts() as stopped,
    ):
        watchers: list[Progress] = [tracked] if progress is None else [progress, tracked]
        if run.iteration == 0 and not directory.metrics():
            before = {"iteration": 0, **_evaluation(run)}
            run.measured(before)
            _report(run, directory, before, watchers)
        while not run.finished:
            batch, line = iterate(run)
            if run.finished or _due(run.iteration, config.eval_every):
                line = {**line, **_evaluation(run)}
            line = run.proceed(line)
            directory.write_rollouts(run.iteration, batch)
            _report(run, directory, line, watchers)
            if run.finished or stopped or _due(run.iteration, config.checkpoint_every):
                directory.write_checkpoint(run.iteration, run.save, config.keep_checkpoints)
            if stopped:
                break
    return Result(directory.path, directory.metrics(), run.finished)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Ctrl-C ends the run after the iteration under way, with a checkpoint; a second one ends it at once."""
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


def _due(iteration: int, every: int) -> bool:
    return every > 0 and iteration % every == 0


def _report(run: Run, directory: RunDirectory, line: Mapping[str, Any], watchers: Sequence[Progress]) -> None:
    directory.append_metrics(line)
    for watcher in watchers:
        watcher(run, line)


def _evaluation(run: Run) -> dict[str, Any]:
    config = run.config
    groups = held_out(
        run.driver,
        tasks=config.eval_tasks,
        samples=config.eval_samples,
        max_tokens=config.max_tokens or run.world.max_tokens,
        seed=config.seed,
    )
    found = measure(groups, ks=(1,))
    line: dict[str, Any] = {f"eval.{name}": m.mean for name, m in found.items()}
    if "failed" in found:
        line["eval.failure"] = failure_note(groups)
    return line | {"eval.pass@1.low": found["pass@1"].low, "eval.pass@1.high": found["pass@1"].high}


@contextmanager
def _reproducible(device: torch.device) -> Iterator[None]:
    """The same sums in the same order: what exact resumption rests on. Not on a GPU, where every write into a cache
    would become a sort."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(before or device.type == "cpu", warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=True)


def _fresh_path(config: Config) -> Path:
    """runs/METHOD-WORLD-TIME: a new directory for a run that was given none."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = config.world if isinstance(config.world, str) else config.world.name
    world = name.split(":")[0].rsplit("/", 1)[-1]
    return Path("runs") / re.sub(r"[^\w@.-]+", "-", f"{config.method.name}-{world}-{stamp}")
