"""`podium train`, `podium eval`, `podium compare`: the main job from the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli import contrast, curve
from podium.cli.console import OUT, line, table
from podium.cli.overrides import apart, join, load, pair, read
from podium.core.errors import PodiumError, nearest
from podium.method import STAGES
from podium.methods.catalogue import CATALOGUE

__all__ = ["compare", "evaluate", "spread", "train"]

NUMBERS = re.compile(r"\d+(,\d+)*,?")
ALONE = {"--compare": "base", "--thinking": "auto"}  # what an option means without a word after it

World = Annotated[
    str | None, typer.Option(help="A world: sums, keydoor, jsonl:FILE, gym:NAME, file.py:MyWorld; see podium worlds.")
]
Level = Annotated[int | None, typer.Option(help="How hard its tasks are.")]
Model = Annotated[str | None, typer.Option(help="podium/tiny, a Hugging Face directory or name, or a GGUF file.")]
Iterations = Annotated[int | None, typer.Option(help="Iterations of the training loop. [default: 60]")]
Out = Annotated[Path | None, typer.Option(help="The run's directory.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="PATH=VALUE: advantage.scale=none, world.noise=0.1, optimizer.lr=3e-4, tasks=32, …"),
]
Parts = Annotated[
    list[str] | None,
    typer.Option("--with", help="A part that joins the method: SamplerCorrection, 'KL: {coefficient: 0.1}', …"),
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda.")]


def train(
    method: Annotated[
        str | None, typer.Argument(help="A slug of the catalogue, slug@preset, A+B, or a YAML file. [default: grpo]")
    ] = None,
    world: World = None,
    level: Level = None,
    model: Model = None,
    iterations: Iterations = None,
    seed: Annotated[int | None, typer.Option(help="Names all random numbers of the run.")] = None,
    out: Out = None,
    device: Device = None,
    changes: Changes = None,
    parts: Parts = None,
    config: Annotated[Path | None, typer.Option(help="A complete config.yaml, as every run keeps one.")] = None,
    resume: Annotated[Path | None, typer.Option(help="A run's directory to go on with.")] = None,
    track: Annotated[list[str] | None, typer.Option(help="Also log to tensorboard or wandb; repeat it.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Train a model. Without arguments: GRPO teaches podium/tiny to add, in about a minute on a laptop."""
    from podium.report.live import Live
    from podium.report.run_page import write_report
    from podium.sessions import train as session
    from podium.store.run_directory import RunDirectory

    typed = {"world": world, "model": model, "iterations": iterations, "seed": seed, "device": device}
    settings = {k: v for k, v in typed.items() if v is not None}
    if level is not None or (world is None and config is None and resume is None):
        settings["level"] = 2 if level is None else level  # the demonstration's, where nothing was named
    with Live(OUT) as live:
        progress, tell = (None, None) if quiet else (live, live.tell)
        if resume is not None:
            if method or settings.keys() - {"device"} or changes or config or parts:
                raise PodiumError(
                    "--resume goes on with the run as it was configured: leave the other options but --device away."
                )
            done = len(RunDirectory(resume).metrics())
            result = session.resume(resume, device=device, progress=progress, track=track or (), tell=tell)
            if result.finished and len(result.metrics) == done and not quiet:
                line("The run was finished already: nothing was left to do.")
        else:
            if method and config:
                raise PodiumError("--config has a method in it: leave the method's name away.")
            made = _config(config, method or "grpo", settings, changes or [], parts or [])
            if not quiet:
                line(f"{made.method.name}: {made.method.summary}")
                line(f"{made.model} on {made.world}, {made.iterations} iterations of {made.tasks} tasks")
                for finding in made.method.check():
                    if finding.kind == "warning":  # what cannot work at all is refused when the run is made
                        line(str(finding), style="yellow")
            result = session.train(made, out=out, progress=progress, track=track or (), tell=tell)
    page = write_report(result.path)
    if quiet:
        return
    if not result.finished:
        done = result.metrics[-1]["iteration"]
        line(f"Stopped after iteration {done}. Go on with: podium train --resume {result.path}")
    first, last = result.evaluations[0], result.evaluations[-1]
    if last is not first:
        when = "after" if result.finished else f"after iteration {last['iteration']}"
        line(f"Held-out pass@1: {first['eval.pass@1']:.3f} before, {last['eval.pass@1']:.3f} {when}.", style="bold")
    line(f"Report: {page}")
    if result.finished:
        line(f"Next: podium eval {result.path} --k 1 8 64, or podium methods for what else there is to train with.")


def _config(
    file: Path | None, method: str, settings: dict[str, Any], changes: Sequence[str], parts: Sequence[str]
) -> Any:
    """A configuration from a file or from a method's name, with settings, `--with` parts and `--set` changes."""
    from podium.training.config import Config

    run, world, optimizer, inner = apart(changes)
    if file is None:
        _check_bare(method, inner)
    config = Config(method=load(method, inner, parts)) if file is None else read(file, Config.from_yaml)
    level = {"level": settings.pop("level")} if "level" in settings else {}
    if level or world:
        settings["world_settings"] = {**(config.world_settings or {}), **level, **world}
    if optimizer:
        settings["optimizer"] = config.optimizer.replace(**optimizer)
    config = config.replace(**settings, **run)
    if file is None:
        return config
    config = config.replace(method=join(config.method, parts))
    for path, value in map(pair, inner):
        head = path.partition(".")[0]
        if head not in STAGES and not head.isdigit():  # a number names one of several methods in turn
            raise PodiumError(f"--set {path}: with --config, name a part's setting, such as advantage.scale.")
        config = config.replace(method=config.method.set(path, value))
    return config


def _check_bare(method: str, changes: Sequence[str]) -> None:
    """Refuse a name without a dot that is no setting of a recipe, with the nearest ones of the run too."""
    from podium.training.config import Config, Optimizer
    from podium.worlds import EMBEDDED

    entry = None if "+" in method else CATALOGUE.get(method.partition("@")[0])
    names = [path for path, _ in map(pair, changes) if "." not in path]
    known = list(inspect.signature(entry.build).parameters) if entry else names
    for name in names:
        if name in known:
            continue
        if name in Optimizer.field_names():
            raise PodiumError(f"--set {name}: write optimizer.{name}.")
        if any(name in world.field_names() for world in EMBEDDED.values()):
            raise PodiumError(f"--set {name}: write world.{name}.")
        said = f"Neither the recipe {method!r} nor the run has a setting {name!r}."
        raise PodiumError(f"{said} {nearest(name, [*known, *Config.field_names()])}")


def evaluate(
    target: Annotated[str, typer.Argument(help="A run's directory, or a model.")],
    world: World = None,
    level: Level = None,
    k: Annotated[list[str] | None, typer.Option("--k", help="pass@k for these k: --k 1 8 64, or --k 1,8,64.")] = None,
    tasks: Annotated[int, typer.Option(help="Held-out tasks.")] = 128,
    samples: Annotated[int | None, typer.Option(help="Answers a task; as many as the largest k by default.")] = None,
    seed: Annotated[int, typer.Option(help="Names the random numbers.")] = 0,
    temperature: Annotated[float, typer.Option(help="0: the most likely answer.")] = 1.0,
    device: Device = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A dial of the world: world.noise=0.1.")] = None,
    compare: Annotated[
        str | None, typer.Option(help="A model or run to set it beside; alone: the model that the run started from.")
    ] = None,
    thinking: Annotated[
        str | None, typer.Option(help="Accuracy if thoughts are cut at these tokens: 0,16,64; alone: powers of two.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure a model or a run on held-out tasks: pass@k, avg@k, maj@k, length, entropy, distinct right answers; or
    beside another, what it has won and lost; or how its accuracy grows with thinking."""
    from podium.sessions import evaluate as session

    settings: dict[str, Any] = {path.removeprefix("world."): value for path, value in map(pair, changes or [])}
    settings |= {} if level is None else {"level": level}
    settings |= {"world": world, "tasks": tasks, "seed": seed, "temperature": temperature, "device": device or "cpu"}
    if compare is not None:
        ks = _numbers(k or ["1,8,64" if samples is None else f"1,{samples}"])
        beside = session.contrast(target, compare, ks=ks, samples=samples, **settings)
        if json:
            line(dumps(beside.as_dict()))
        else:
            contrast.show(beside)
        return
    if thinking is not None:
        budgets = None if thinking == "auto" else _numbers([thinking], "--thinking 0,16,64")
        points = session.thinking(target, budgets=budgets, samples=samples or 1, **settings)
        if json:
            line(dumps([point.as_dict() for point in points]))
        else:
            curve.show(points)
        return
    found = session.evaluate(target, ks=_numbers(k or ["1", "8"]), samples=samples, **settings)
    if json:
        line(dumps({name: measured.as_dict() for name, measured in found.items()}))
        return
    table(
        ["measure", "mean", "95 % interval"],
        [[n, f"{m.mean:.3f}", f"[{m.low:.3f}, {m.high:.3f}]"] for n, m in found.items()],
    )


def spread(arguments: Sequence[str]) -> list[str]:
    """What was typed, with `--k 1 8 64` as `--k 1 --k 8 --k 64`, an option that takes all the numbers after it, and
    with the run's own base where `--compare` stands alone, and all powers of two where `--thinking` does."""
    told: list[str] = []
    for number, word in enumerate(arguments):
        # A number goes on with the list if everything between it and its --k is a number too.
        more = NUMBERS.fullmatch(word) and told[-2:-1] == ["--k"] and arguments[number - 1] != "--k"
        told += ["--k", word] if more else [word]
        following = arguments[number + 1] if number + 1 < len(arguments) else "-"
        if word in ALONE and following.startswith("-"):
            told.append(ALONE[word])
    return told


def _numbers(words: Sequence[str], example: str = "--k 1 8 64") -> list[int]:
    """The numbers of `1`, `8,64`, …, each once."""
    for word in words:
        if NUMBERS.fullmatch(word) is None:
            raise PodiumError(f"{example.split()[0]} {word!r} is not a number: write {example}.")
    return list(dict.fromkeys(int(n) for word in words for n in word.split(",") if n))


def compare(
    methods: Annotated[list[str], typer.Argument(help="Two or more methods; the first is the base.")],
    world: World = None,
    level: Level = None,
    model: Model = None,
    iterations: Annotated[int, typer.Option(help="Iterations of the first method.")] = 100,
    seeds: Annotated[int, typer.Option(help="How many seeds each.")] = 5,
    n: Annotated[int, typer.Option(help="Rollouts a task, in all methods.")] = 8,
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/compare"),
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="PATH=VALUE: world.noise=0.1, optimizer.lr=3e-4, tasks=32, …")
    ] = None,
) -> None:
    """Train methods on the same tasks, random numbers and token budget, and report paired differences."""
    from podium.report.comparison import write_comparison
    from podium.sessions.compare import compare as train_all
    from podium.sessions.compare import comparison_text
    from podium.sessions.train import Result
    from podium.training.config import Optimizer

    typed = {"world": world, "model": model, "iterations": iterations, "level": level}
    run, dials, optimizer, others = apart(changes or [])
    if others:
        raise PodiumError(
            f"--set {others[0]}: a comparison takes settings of the run (tasks=32), the world (world.noise=0.1) and "
            "the optimiser (optimizer.lr=3e-5); a method that you changed comes as a YAML file."
        )
    settings: dict[str, Any] = {key: v for key, v in typed.items() if v is not None} | run
    if dials:
        settings["world_settings"] = dials
    if optimizer:
        settings["optimizer"] = Optimizer().replace(**optimizer)

    def progress(name: str, seed: int, result: Result) -> None:
        line(f"{name} seed {seed}: held-out pass@1 {result.evaluations[-1]['eval.pass@1']:.3f}")

    found = train_all([load(m, []) for m in methods], seeds=seeds, n=n, out=out, progress=progress, **settings)
    rows = []
    for row in found.rows:
        mean = sum(row.differences) / len(row.differences)
        against = ["", ""] if row is found.rows[0] else [f"{mean:+.3f}", comparison_text(row.differences, "+")]
        rows.append([row.name, f"{row.mean:.3f}", comparison_text(row.finals), *against])
    table(["method", "pass@1", "95 %", "difference", "95 % (paired)"], rows)
    line(f"Report: {write_comparison(found)}")
