"""`podium train`, `podium eval`, `podium compare`: the main job from the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli import contrast
from podium.cli.console import OUT, line, table
from podium.cli.load import join, load, pair
from podium.core.errors import PodiumError
from podium.core.method import STAGES

__all__ = ["compare", "evaluate", "spread", "train"]

NUMBERS = re.compile(r"\d+(,\d+)*,?")

World = Annotated[
    str | None, typer.Option(help="A world: echo, sums, countdown, rules, jsonl:FILE, gym:NAME, file.py:MyWorld.")
]
Level = Annotated[int | None, typer.Option(help="How hard its tasks are.")]
Model = Annotated[str | None, typer.Option(help="podium/tiny, a Hugging Face directory or name, or a GGUF file.")]
Iterations = Annotated[int | None, typer.Option(help="Iterations of the training loop.")]
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
        str, typer.Argument(help="A slug of the catalogue, slug@preset, or a YAML file of a method.")
    ] = "grpo",
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
    from podium.report.page import write_report
    from podium.training import session

    typed = {"world": world, "model": model, "iterations": iterations, "seed": seed, "device": device}
    settings = {k: v for k, v in typed.items() if v is not None}
    if level is not None or (world is None and config is None and resume is None):
        settings["level"] = 2 if level is None else level  # the demonstration's, where nothing was named
    with Live(OUT) as live:
        progress = None if quiet else live
        if resume is not None:
            if settings or changes or config or parts:
                raise PodiumError("--resume goes on with the run as it was configured: leave the other options away.")
            result = session.resume(resume, progress=progress, track=track or ())
        else:
            made = _config(config, method, settings, changes or [], parts or [])
            if not quiet:
                line(f"{made.method.name}: {made.method.summary}")
                line(f"{made.model} on {made.world}, {made.iterations} iterations of {made.tasks} tasks")
                for finding in made.method.check():
                    if finding.kind == "warning":  # what cannot work at all is refused when the run is made
                        line(str(finding), style="yellow")
            result = session.train(made, out=out, progress=progress, track=track or ())
    page = write_report(result.path)
    if quiet:
        return
    if not result.finished:
        line(f"Stopped. Go on with: podium train --resume {result.path}")
    first, last = result.evaluations[0], result.evaluations[-1]
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
    from podium.training.session import configure

    pairs = [pair(change) for change in changes]
    outer = [(p, v) for p, v in pairs if p.partition(".")[0] in ("world", "optimizer") or p in Config.field_names()]
    inner = [c for c, (p, v) in zip(changes, pairs, strict=True) if (p, v) not in outer]
    for path, value in outer:
        settings[path.partition(".")[2] or path] = value
    if file is None:
        return configure(load(method, inner, parts), **settings)
    try:
        config = Config.from_yaml(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise PodiumError(f"Cannot read {str(file)!r}: {problem.strerror}.") from problem
    given = {k: settings.pop(k) for k in list(settings) if k in Config.field_names()}
    if settings:
        given["world_settings"] = {**(config.world_settings or {}), **settings}
    config = config.replace(**given, method=join(config.method, parts))
    for path, value in (pair(c) for c in inner):
        head = path.partition(".")[0]
        if head not in STAGES and not head.isdigit():  # a number names one of several methods in turn
            raise PodiumError(f"--set {path}: with --config, name a part's setting, such as advantage.scale.")
        config = config.replace(method=config.method.set(path, value))
    return config


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
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Measure a model or a run on held-out tasks: pass@k, avg@k, maj@k, length, entropy, distinct right answers; or
    beside another, what it has won and lost."""
    from podium.evaluation import session

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
    with the run's own base where `--compare` stands alone."""
    told: list[str] = []
    for number, word in enumerate(arguments):
        # A number goes on with the list if everything between it and its --k is a number too.
        more = NUMBERS.fullmatch(word) and told[-2:-1] == ["--k"] and arguments[number - 1] != "--k"
        told += ["--k", word] if more else [word]
        following = arguments[number + 1] if number + 1 < len(arguments) else "-"
        if word == "--compare" and following.startswith("-"):
            told.append("base")
    return told


def _numbers(words: Sequence[str]) -> list[int]:
    """The numbers of `1`, `8,64`, …, each once."""
    for word in words:
        if NUMBERS.fullmatch(word) is None:
            raise PodiumError(f"--k {word!r} is not a number: write --k 1 8 64.")
    return list(dict.fromkeys(int(n) for word in words for n in word.split(",") if n))


def compare(
    methods: Annotated[list[str], typer.Argument(help="Two or more methods; the first is the base.")],
    world: World = None,
    level: Level = None,
    model: Model = None,
    iterations: Iterations = None,
    seeds: Annotated[int, typer.Option(help="How many seeds each.")] = 5,
    n: Annotated[int, typer.Option(help="Rollouts a task, in all methods.")] = 8,
    out: Out = None,
    changes: Changes = None,
) -> None:
    """Train methods on the same tasks, random numbers and token budget, and report paired differences."""
    from podium.report.compare import write_comparison
    from podium.training.compare import compare as run
    from podium.training.compare import interval
    from podium.training.session import Result

    typed = {"world": world, "model": model, "iterations": iterations, "level": level}
    settings: dict[str, Any] = {key: v for key, v in typed.items() if v is not None}
    settings |= {path.partition(".")[2] or path: value for path, value in map(pair, changes or [])}

    def progress(name: str, seed: int, result: Result) -> None:
        line(f"{name} seed {seed}: held-out pass@1 {result.evaluations[-1]['eval.pass@1']:.3f}")

    found = run(
        [load(m, []) for m in methods], seeds=seeds, n=n, out=out or Path("runs/compare"), progress=progress, **settings
    )
    rows = []
    for row in found.rows:
        mean = sum(row.differences) / len(row.differences)
        rows.append(
            [
                row.name,
                f"{row.mean:.3f}",
                "[{:.3f}, {:.3f}]".format(*interval(row.finals)),
                f"{mean:+.3f}",
                "[{:+.3f}, {:+.3f}]".format(*interval(row.differences)),
            ]
        )
    table(["method", "pass@1", "95 %", "difference", "95 % (paired)"], rows)
    line(f"Report: {write_comparison(found)}")
