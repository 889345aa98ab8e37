"""Training from start to end: the run directory, the loop, evaluations, checkpoints, and a clean stop."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from podium import worlds
from podium.core.errors import PodiumError, nearest
from podium.core.launched import restarted
from podium.core.ranks import Ranks
from podium.evaluation.measure import failure_note, held_out, measure
from podium.method import Method
from podium.method.check import Finding
from podium.methods import get
from podium.methods.catalogue import home_of
from podium.policy.model.load import EMBEDDED
from podium.sessions.doctor import Watch
from podium.sessions.recover import recover
from podium.store.held_out import example_rows, write_held_out
from podium.store.manifest import check_manifest
from podium.store.run_directory import ReadOnlyRun, RunDirectory
from podium.store.sound_checkpoint import newest_sound
from podium.training.build import build_run
from podium.training.config import Config, Optimizer
from podium.training.loop import iterate
from podium.training.memory_plan import suggest_settings
from podium.training.preemption import Preempted, StopRequest
from podium.training.preflight import check_fresh, check_resources
from podium.training.process_group import check_same, joined_ranks
from podium.training.resolve import facts_of, fill_in, updates_per_batch
from podium.training.run import Run, is_due
from podium.training.saved_code import save_code
from podium.training.stored_config import differing_settings, stored_config
from podium.training.trackers import Trackers, require
from podium.worlds import World
from podium.worlds.rewarding import reward_names

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
    preempted: str = ""  # the signal by which the system has stopped the run, such as SIGTERM
    saved: int = 0  # the iteration of the last checkpoint
    lost: int = 0  # iterations that were done but are in no checkpoint: `resume` repeats them

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        return [line for line in self.metrics if "eval.pass@1" in line]


def configure(method: str | Method = "grpo", **settings: Any) -> Config:
    """A configuration from a method and loose settings: those of `Config`, of `Optimizer`, and of the world."""
    value = method if isinstance(method, Method) else get(method)
    settings = own_data(settings)
    if isinstance(method, str) and "world" not in settings:
        settings = at_home(method, settings)
    of_optimizer = {k: settings.pop(k) for k in list(settings) if k in Optimizer.field_names()}
    of_run = {k: settings.pop(k) for k in list(settings) if k in Config.field_names()}
    if of_optimizer:
        of_run["optimizer"] = of_run.get("optimizer", Optimizer()).replace(**of_optimizer)
    if settings:  # what is left belongs to the world
        _check_loose(settings, of_run.get("world", Config.world), value)
        of_run["world_settings"] = {**(of_run.get("world_settings") or {}), **settings}
    return Config(method=value, **of_run)


def own_data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which `data` names the world and `reward` its reward functions."""
    changed = dict(settings)
    if "data" in changed:
        if "world" in changed:
            raise PodiumError("data names the tasks: leave out world.")
        changed["world"] = f"data:{changed.pop('data')}"
    reward = changed.get("reward")
    if reward is not None and not (isinstance(reward, str) and ":" not in reward):  # else a setting of the world `code`
        changed["reward_functions"] = reward_names(changed.pop("reward"))
    return changed


def at_home(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run where no world was named: those of the method's home, unless these say otherwise."""
    home = home_of(method)
    of_world = {**home.world_settings, **(settings.get("world_settings") or {})}
    return {**home.run_settings, **settings, "world_settings": of_world}


def check_run(config: Config) -> list[Finding]:
    """What is wrong with a run: what its method needs and does not get, and what cannot act in it."""
    world = worlds.isolated(config.world, config.world_settings, isolation=config.isolation)
    with closing(world):
        config = fill_in(config, world)
        return config.method.check(world.provides, facts=facts_of(config, world))


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

    In the main thread, SIGTERM and SIGUSR1 stop a run with a checkpoint, within `grace_s` seconds (`Result.preempted`).
    """
    if out is not None and restarted() and (Path(out) / "config.yaml").is_file():
        return resume(out, progress=progress, track=track, tell=tell)
    config = method if isinstance(method, Config) else configure(method, **settings)
    trackers = require(track)
    run, stop, directory = None, StopRequest(config.grace_s, tell), RunDirectory("")
    with suppress(Preempted), joined_ranks(config.device) as ranks:
        check_same(ranks, config)
        path = Path(out) if out is not None else ranks.of_first(_fresh_path(config))
        check_resources(out=path, device=config.device, model=config.model)
        with ranks.first_before_others():
            if ranks.first:
                check_fresh(path)
            config = save_code(config.replace(model=starting_weights(config.model)), path)
        directory, stop = _directory(path, ranks), StopRequest(config.grace_s, tell, ranks)
        with stop.on_preemption(), suggest_settings():
            with stop.allowed():
                run = build_run(config, _stage(progress), ranks)  # before anything is written: most mistakes show here
            with closing(run), _locked(directory):
                directory.write_config(run.config.to_yaml())
                _run_to_end(run, directory, progress, trackers, tell, stop)
    return _result(directory, run, stop)


def resume(
    path: str | Path,
    *,
    config: Config | None = None,
    device: str | None = None,
    iterations: int | None = None,
    grace_s: float | None = None,
    progress: Progress | None = None,
    track: str | Sequence[str] = (),
    tell: Tell | None = None,
    trust: bool = False,
) -> Result:
    """Continue a run from its last sound checkpoint, perhaps on another device; on a CPU bit by bit.

    With `iterations`, it goes on until so many are done in all. Schedules that run over the whole run go by that number
    from here on.
    Code that its configuration names must stand in the current project, unless `trust`.
    """
    trackers = require(track)
    directory = RunDirectory(path)
    stored, text, damaged = stored_config(directory, trust=trust)
    if config is not None and (changed := differing_settings(config, stored)):
        raise PodiumError(
            f"The run {path} was made with other settings ({', '.join(changed)}). Start a new run with --out."
        )
    config = stored.replace(device=device or stored.device, grace_s=stored.grace_s if grace_s is None else grace_s)
    if iterations is not None:
        done = max((line["iteration"] for line in directory.metrics()), default=0)
        if iterations < done:
            raise PodiumError(f"{path} has done {done} iterations already: {iterations} in all would be fewer.")
        config = config.replace(iterations=iterations)
    if "keep_rollouts_gb:" not in text:  # written by an earlier version, which kept all
        config = config.replace(keep_rollouts_gb=None)
    check_resources(out=directory.path, device=config.device)
    run, stop = None, StopRequest(config.grace_s, tell)
    with suppress(Preempted), joined_ranks(config.device) as ranks:
        check_same(ranks, config)
        directory, stop = _directory(directory.path, ranks), StopRequest(config.grace_s, tell, ranks)
        with stop.on_preemption(), suggest_settings(), _locked(directory):
            with stop.allowed():
                run = build_run(config, _stage(progress), ranks)
            with closing(run):
                if damaged or iterations is not None:
                    directory.write_config(stored.replace(iterations=config.iterations).to_yaml())
                with ranks.first_before_others():
                    recover(run, directory)
                _run_to_end(run, directory, progress, trackers, tell, stop)
    return _result(directory, run, stop)


def starting_weights(model: str) -> str:
    """A model by name; of the directory of a run, that of its newest sound checkpoint, which stays what it is while the
    run goes on."""
    checkpoints = [] if model.startswith(EMBEDDED) else RunDirectory(model).checkpoints()
    if not checkpoints:
        if (Path(model) / "config.yaml").is_file() and not (Path(model) / "config.json").is_file():
            raise PodiumError(f"The run {model} has no checkpoint yet.")
        return model
    _, sound = newest_sound(checkpoints, check_manifest)
    return str(sound.checkpoint / "policy")


def _directory(path: Path, ranks: Ranks) -> RunDirectory:
    """The files of a run: rank 0 writes them, and the others read."""
    return RunDirectory(path) if ranks.first else ReadOnlyRun(path)


def _warn(note: str) -> None:
    warnings.warn(note, stacklevel=2)


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
    run: Run,
    directory: RunDirectory,
    progress: Progress | None,
    trackers: Sequence[str],
    tell: Tell | None,
    stop: StopRequest,
) -> None:
    config, run.stop, first = run.config, stop, run.ranks.first
    if not first:
        progress, trackers, tell = None, (), lambda text: None
    if tell is not None:
        for note in (_in_short(run), *run.policy.notes):
            tell(note)
    with (
        closing(Trackers(trackers, directory.path, config, run.iteration)) as tracked,
        _reproducible(run.policy.device),
        stop.on_interrupt(),
    ):
        watch = Watch(config, directory.path, directory.metrics(), tell or _warn)
        watchers: list[Progress] = [*([] if progress is None else [progress]), tracked, lambda _, line: watch(line)]
        if run.ranks.of_first(run.iteration == 0 and not directory.metrics()):
            _stage(progress)(_first_evaluation(run))
            with stop.allowed():
                before = {"iteration": 0, **_evaluation(directory, run)}
            run.measured(before)
            _report(run, directory, before, watchers)
        while run.pending is not None or not run.finished:
            metrics = _advance(run, directory)
            stop.end_grace()
            stop.agree()
            if metrics is not None:
                _report(run, directory, metrics, watchers)
            if run.finished or stop.asked_by or is_due(run.iteration, config.checkpoint_every):
                _write_checkpoint(run, directory)
            if stop.asked_by:
                break


def _advance(run: Run, directory: RunDirectory) -> dict[str, Any] | None:
    """The metrics of the next iteration, or of one whose evaluation is pending. None: it was stopped, and the run is as
    it was before the iteration, or before the evaluation."""
    try:
        if run.pending is not None:
            return run.complete(partial(_evaluation, directory))
        _, metrics = iterate(run, partial(_evaluation, directory), directory.write_rollouts)
        directory.thin_rollouts(run.config.keep_rollouts_gb, run.config.keep_examples)
        return metrics
    except Preempted:
        run.stop.forbid()  # a checkpoint follows
        if run.stop.at_once:
            raise
        run.abandon()
        return None


def _write_checkpoint(run: Run, directory: RunDirectory) -> None:
    """Write a checkpoint, unless the last one holds the current state or there is nothing to save yet."""
    if run.saved == run.iteration or run.iteration == 0:
        return
    begun = time.monotonic()
    for learner in run.trainer.learners.values():
        learner.gather_moments()
    directory.write_checkpoint(run.iteration, run.save, run.config.keep_checkpoints)
    run.stop.checkpoint_s = time.monotonic() - begun
    run.saved = run.iteration if run.pending is None else None


def _result(directory: RunDirectory, run: Run | None, stop: StopRequest) -> Result:
    """The outcome of a run, which is None if it was stopped while it was loading."""
    metrics, checkpoints = directory.metrics(), directory.checkpoints()
    finished = run is not None and run.finished and run.saved == run.iteration
    saved = int(checkpoints[-1].name.partition("-")[2]) if checkpoints else 0
    done = run.iteration if run is not None else metrics[-1]["iteration"] if metrics else 0
    preempted = stop.asked_by.name if stop.asked_by and stop.preempted and not finished else ""
    return Result(directory.path, metrics, finished, preempted, saved, max(0, done - saved))


def _report(run: Run, directory: RunDirectory, metrics: Mapping[str, Any], watchers: Sequence[Progress]) -> None:
    directory.append_metrics(metrics)
    directory.write_pictures(run.policy.pictures)
    for watcher in watchers:
        watcher(run, metrics)


def _in_short(run: Run) -> str:
    """What is trained, on what, and how, in a line."""
    config, updates = run.config, updates_per_batch(run.config.method)
    steps = "1 update" if updates == 1 else f"{updates} updates"
    world = config.world if isinstance(config.world, str) else config.world.name
    level = (config.world_settings or {}).get("level")
    place = world if level is None else f"{world} (level {level})"
    each = f"{config.iterations} iterations of {config.tasks} tasks"
    return f"{config.model} on {place}: {each}, {steps} per batch, learning rate {config.optimizer.lr:g}"


def _first_evaluation(run: Run) -> str:
    compiled = ", compiling its kernels first" if run.policy.device.type == "cuda" else ""
    return f"Evaluating {run.config.model} on {run.config.eval_tasks} held-out tasks before training{compiled}"


def _evaluation(directory: RunDirectory, run: Run) -> dict[str, Any]:
    """The metrics of the policy on held-out tasks; a few of its answers are written."""
    config = run.config
    groups = held_out(
        run.driver,
        tasks=config.eval_tasks,
        samples=config.eval_samples,
        max_tokens=config.max_tokens,
        seed=config.seed,
        method=config.method,
        shown=run.shown,
    )
    if run.ranks.first:
        write_held_out(directory.path, run.iteration, example_rows(groups))
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
