"""`podium train`: the main job from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podium.cli.console import line
from podium.cli.options import AnswerField, Data, Device, Level, Model, PromptField, Reward, Trust, World, data_settings
from podium.cli.overrides import load, read_file, split_change, split_changes, with_parts
from podium.cli.preflight import check_config, check_setting_names, check_typed
from podium.core.errors import PodiumError, Unfinished
from podium.core.launched import is_first, restarted
from podium.training.preflight import check_fresh

if TYPE_CHECKING:
    from podium.method import Home
    from podium.sessions.train import Result
    from podium.training.config import Config

__all__ = ["configured", "train"]


def train(
    method: Annotated[
        str | None, typer.Argument(help="A slug of the catalogue, slug@preset, A+B, or a YAML file. [default: grpo]")
    ] = None,
    world: World = None,
    level: Level = None,
    data: Data = None,
    prompt_field: PromptField = None,
    answer_field: AnswerField = None,
    reward: Reward = None,
    model: Model = None,
    iterations: Annotated[
        int | None, typer.Option(help="Iterations of the training loop. [default: those of its home, or 60]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of all random numbers of the run. [default: 0]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The directory of the run. [default: runs/METHOD-WORLD-TIME]")
    ] = None,
    device: Device = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="What samples: local, vllm (in this process) or openai:URL (a server on this machine). "
            "[default: local]"
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Change a setting: advantage.scale=none, world.noise=0.1, optimizer.lr=3e-4, tasks=32.",
        ),
    ] = None,
    parts: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="PART",
            help="Add a part to the method: SamplerCorrection, or 'KL: {coefficient: 0.1}'. May be repeated.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Train from a complete configuration, such as the config.yaml of a run.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this directory.")] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also log to tensorboard, wandb, trackio or mlflow. May be repeated."),
    ] = None,
    trust: Trust = False,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="After SIGTERM or SIGUSR1, the time left to end the iteration and write a checkpoint. [default: 25]",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Train a model. Without arguments, GRPO teaches podium/tiny to add, in about a minute on a laptop."""
    world, of_world = data_settings(world, data, prompt_field, answer_field, reward)
    typed = {"world": world, "model": model, "iterations": iterations, "seed": seed, "device": device, "grace_s": grace}
    typed["sampler"] = sampler
    settings: dict[str, Any] = {k: v for k, v in typed.items() if v is not None}
    if level is not None:
        of_world["level"] = level
    if of_world:
        settings["of_world"] = of_world
    if resume is not None:
        if method or settings.keys() - {"device", "grace_s", "iterations"} or changes or config or parts:
            raise PodiumError(
                "--resume continues the run as it was configured: of the other options, only --iterations, --device, "
                "--grace, --track, --trust and --quiet may be given."
            )
        how = {"device": device, "iterations": iterations, "grace_s": grace, "track": track or (), "trust": trust}
        result = _resume(resume, how, quiet or not is_first())
    else:
        if method and config:
            raise PodiumError("--config contains a method: leave out the name of the method.")
        check_typed([] if config else [method or "grpo"], out=out, world=world, device=device, model=model)
        if out is not None and is_first() and not restarted():
            check_fresh(out)
        if config is None:
            check_setting_names(method or "grpo", changes or [])
        if method is None and config is None:
            settings.setdefault("iterations", 60)  # the demonstration
        complete = configured(config, method or "grpo", settings, changes or [], parts or [], trust)
        check_config(complete)
        result = _start(complete, out, track or (), quiet or not is_first(), chosen=world is None and config is None)
    if is_first():
        _finish(result, quiet)


def _start(config: Config, out: Path | None, track: Sequence[str], quiet: bool, chosen: bool) -> Result:
    """Train; `chosen` says that the method chose the world."""
    from rich.console import Console

    from podium.report.live import Live
    from podium.sessions import train as session
    from podium.training.trackers import require

    require(track)
    if quiet:
        return session.train(config, out=out, track=track)
    line(f"{config.method.name}: {config.method.summary}")
    if chosen:
        line(f"No world was named: it trains on {config.world}, where its parts can act. --world names another.")
    with Live(Console()) as live:
        live.stage(f"Loading {config.model}")
        return session.train(config, out=out, progress=live, track=track, tell=live.tell)


def _resume(path: Path, how: Mapping[str, Any], quiet: bool) -> Result:
    if not (path / "config.yaml").is_file():
        raise PodiumError(f"{path} is not a run: it has no config.yaml.")
    from rich.console import Console

    from podium.report.live import Live
    from podium.sessions import train as session

    if quiet:
        return session.resume(path, **how)
    with Live(Console()) as live:
        live.stage(f"Loading the last checkpoint of {path}")
        result = session.resume(path, **how, progress=live, tell=live.tell)
    if result.finished and live.begun is None:  # no iteration was shown
        line("The run had already finished: --iterations lets it go on.")
    return result


def _finish(result: Result, quiet: bool) -> None:
    """Write the report, and print the outcome."""
    if result.preempted:
        raise Unfinished(_preempted(result))
    from podium.report.run_page import write_report

    page = write_report(result.path)
    if quiet:
        return
    if not result.finished:
        done = result.metrics[-1]["iteration"]
        line(f"Stopped after iteration {done}. To continue: podium train --resume {result.path}")
    first, last = (result.evaluations[place] if result.evaluations else None for place in (0, -1))
    if first is not None and last is not None and last is not first:
        when = "after" if result.finished else f"after iteration {last['iteration']}"
        line(f"Held-out pass@1: {first['eval.pass@1']:.3f} before, {last['eval.pass@1']:.3f} {when}.", style="bold")
    if _weights_unchanged(result.metrics):
        line("Weights unchanged: the method learns in its memories alone.")
    _show_activity(result)
    line(f"Report: {page}")
    if result.finished:
        line(f"Next: podium eval {result.path} --k 1 8 64, or podium methods for other methods to train with.")


def _weights_unchanged(metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no iteration has updated the model."""
    trained = [line for line in metrics if line["iteration"]]
    return bool(trained) and all(line.get("weights_unchanged") for line in trained)


def _show_activity(result: Result) -> None:
    """Which parts of the method never changed anything."""
    from podium.core.activity import activity

    counts = activity(result.metrics)
    idle = [name for name, (acted, _) in counts.items() if not acted]
    if idle:
        line(f"Never acted: {', '.join(idle)}. The report shows what each part has changed.", style="yellow")
    elif counts:
        line(f"All {len(counts)} parts of the method acted.")


def _preempted(result: Result) -> str:
    """Where the system has stopped a run, which iterations are lost, and how to continue."""
    if not (result.path / "config.yaml").is_file():
        return f"Stopped by {result.preempted} before the run began. The same command starts it."
    at = f"with a checkpoint of iteration {result.saved}" if result.saved else "before the first checkpoint"
    lost = f" Iterations {result.saved + 1} to {result.saved + result.lost} will be repeated." if result.lost else ""
    return f"Stopped by {result.preempted} {at}.{lost} To continue: podium train --resume {result.path}"


def configured(
    file: Path | None, method: str, settings: dict[str, Any], changes: Sequence[str], parts: Sequence[str], trust: bool
) -> Config:
    """A configuration from a file or from the name of a method, with settings, `--with` parts and `--set` changes."""
    if file is not None:
        read_file(file, str)
    from podium.method import STAGES
    from podium.training.config import Config

    run, world, optimizer, of_method = split_changes(changes)
    if file is None:
        config = Config(method=load(method, of_method, parts, trust=trust))
        if "world" not in settings:
            config = config.replace(**_home(method).run_settings)
    else:
        config = read_file(file, partial(Config.from_yaml, trust=trust, run=_run_of(file)))
    world = {**settings.pop("of_world", {}), **world}
    if world:
        settings["world_settings"] = {**(config.world_settings or {}), **world}
    if optimizer:
        settings["optimizer"] = config.optimizer.replace(**optimizer)
    config = config.replace(**settings, **run)
    if file is None:
        return config
    config = config.replace(method=with_parts(config.method, parts))
    for path, value in map(split_change, of_method):
        head = path.partition(".")[0]
        if head not in STAGES and not head.isdigit():  # a number names one of several methods in turn
            raise PodiumError(f"--set {path}: with --config, name a part's setting, such as advantage.scale.")
        config = config.replace(method=config.method.set(path, value))
    return config


def _home(method: str) -> Home:
    """Where a method trains if no world is named; one from a file has the place of plain GRPO."""
    from podium.methods.catalogue import home_of

    return home_of("grpo" if method.endswith((".yaml", ".yml")) else method)


def _run_of(file: Path) -> Path | None:
    """The run that a config.yaml belongs to: as its own, or as the copy in one of its checkpoints."""
    from podium.store.manifest import is_checkpoint

    folder = file.resolve().parent
    if is_checkpoint(folder):
        return folder.parent.parent
    return file.parent if (folder / "metrics.jsonl").is_file() else None
