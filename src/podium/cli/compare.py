"""`podium compare`: train several methods under the same conditions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podium.cli.console import line, table
from podium.cli.options import Level, Model, Trust, World
from podium.cli.overrides import load, split_changes
from podium.cli.preflight import check_typed
from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.sessions.train import Result

__all__ = ["compare"]


def compare(
    methods: Annotated[list[str], typer.Argument(help="Two or more methods; the others are compared with the first.")],
    world: World = None,
    level: Level = None,
    model: Model = None,
    iterations: Annotated[int, typer.Option(help="Iterations of the first method.")] = 100,
    seeds: Annotated[int, typer.Option(help="The number of seeds per method.")] = 5,
    n: Annotated[int, typer.Option(help="Rollouts per task, in all methods.")] = 8,
    out: Annotated[Path, typer.Option(help="The directory of the runs and the report.")] = Path("runs/compare"),
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Change a setting of all runs: world.noise=0.1, optimizer.lr=3e-4, tasks=32. May be repeated.",
        ),
    ] = None,
    trust: Trust = False,
) -> None:
    """Train several methods under equal conditions.

    They get the same tasks, random numbers and token budget; the report has paired differences.
    """
    check_typed(methods, out=out, world=world, model=model)
    if len(methods) < 2:
        raise PodiumError("A comparison needs at least two methods.")
    run, world_settings, optimizer, others = split_changes(changes or [])
    if others:
        raise PodiumError(
            f"--set {others[0]}: a comparison takes settings of the run (tasks=32), the world (world.noise=0.1) and "
            "the optimiser (optimizer.lr=3e-5); a method that you changed comes as a YAML file."
        )
    from podium.report.comparison import write_comparison
    from podium.sessions.compare import DIFFERENCES, comparison_text
    from podium.sessions.compare import compare as train_all
    from podium.training.config import Optimizer

    typed = {"world": world, "model": model, "iterations": iterations, "level": level}
    settings: dict[str, Any] = {key: v for key, v in typed.items() if v is not None} | run
    if world_settings:
        settings["world_settings"] = world_settings
    if optimizer:
        settings["optimizer"] = Optimizer().replace(**optimizer)

    def progress(name: str, seed: int, result: Result) -> None:
        line(f"{name} seed {seed}: held-out pass@1 {result.evaluations[-1]['eval.pass@1']:.3f}")

    loaded = [load(m, [], trust=trust) for m in methods]
    outcome = train_all(loaded, seeds=seeds, n=n, out=out, progress=progress, **settings)
    cells = []
    for row in outcome.rows:
        mean = sum(row.differences) / len(row.differences)
        against = (
            ["", ""] if row is outcome.rows[0] else [f"{mean:+.3f}", comparison_text(row.differences, "+", DIFFERENCES)]
        )
        trained = [str(row.updates), f"{row.lr:g}"]
        cells.append([row.name, f"{row.mean:.3f}", comparison_text(row.finals), *against, *trained])
    table(["method", "pass@1", "95 %", "difference", "95 % (paired)", "updates", "learning rate"], cells)
    line(
        "Worlds, tasks, rollouts, lengths and token budget are the same; updates and learning rates are each method's."
    )
    line(f"Report: {write_comparison(outcome)}")
