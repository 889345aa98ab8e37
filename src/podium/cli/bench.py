"""`podium bench`: how good estimators are where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podium.cli.commands import Commands
from podium.cli.console import line, table
from podium.cli.overrides import load, pair
from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.worlds import World

__all__ = ["app"]

app = typer.Typer(cls=Commands, help="Measure estimators against the truth.", invoke_without_command=True)

COMPARED = ("grpo", "rloo", "reinforce", "ppo")  # beside every method of the family `turns`


@app.callback()
def group(context: typer.Context) -> None:
    """Measure estimators against the truth."""
    if context.invoked_subcommand is None:
        line(context.get_help())


@app.command()
def credit(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[METHOD]...", help="Methods; default: those of many turns.")
    ] = None,
    world: Annotated[str, typer.Option(help="Worlds whose exact values are known.")] = "keydoor,lookup",
    level: Annotated[int, typer.Option(help="Of the worlds.")] = 3,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="A dial of the world: world.slip=0.1, world.miss=0.3.")
    ] = None,
    strength: Annotated[
        str | None, typer.Option(help="Of the policies; 0 is random. Default: three that fit the world.")
    ] = None,
    rollouts: Annotated[str, typer.Option(help="How many of each task.")] = "8",
    tasks: Annotated[int, typer.Option(help="How many tasks.", min=1)] = 8,
    seeds: Annotated[int, typer.Option(help="How many batches.", min=1)] = 20,
    noise: Annotated[float, typer.Option(help="Standard deviation of the errors of the noisy values.", min=0)] = 0.1,
    out: Annotated[Path | None, typer.Option(help="A file for tables and figures, as one HTML page.")] = None,
    svg: Annotated[Path | None, typer.Option(help="A folder for a figure a world: credit-WORLD.svg.")] = None,
) -> None:
    """Hold the credit of each step against its exact advantage, in worlds where that is known.

    Policies of several strengths, as tables, walk through houses of keys and doors, and search for the answers of
    questions; every method credits the same rollouts.
    """
    from podium.analysis.credit import STRENGTHS, CreditScore, Estimator, compare_estimators, fitting, references
    from podium.methods.catalogue import CATALOGUE
    from podium.report.credit_page import HEADER, NOTE, cells, heading, write_credit, write_figure

    dials = {path.removeprefix("world."): value for path, value in map(pair, changes or [])}
    known = [_exact(name.strip(), level=level, **dials) for name in dict.fromkeys(world.split(","))]
    given = None if strength is None else _numbers(strength, "--strength")
    counts = [int(x) for x in _numbers(rollouts, "--rollouts")]
    chosen = names or [*COMPARED, *(slug for slug, entry in CATALOGUE.items() if entry.family == "turns")]
    methods = [load(name, ()) for name in chosen]
    fit: list[list[Estimator]] = []
    for one in known:  # all of them, before anything is measured
        estimators, refused = fitting(methods, one)
        if names and refused:
            raise PodiumError(next(iter(refused.values())))
        fit.append([*estimators, *references(noise)])
    scores: dict[str, list[CreditScore]] = {}
    for one, estimators in zip(known, fit, strict=True):
        for value in given or STRENGTHS.get(one.name, STRENGTHS["keydoor"]):
            for count in counts:
                found = compare_estimators(estimators, one, strength=value, rollouts=count, tasks=tasks, seeds=seeds)
                scores.setdefault(one.name, []).extend(found)
                line(heading(found[0]))
                table(HEADER, [cells(score) for score in found])
                line()
    line(NOTE)
    for reason in refused.values():
        line(f"Left out: {reason}", style="yellow")
    if out is not None:
        title = f"Credit on {' and '.join(scores)}, {tasks} tasks, {seeds} seeds"
        line(f"Report: {write_credit([score for found in scores.values() for score in found], out, title)}")
    if svg is not None:
        for name, found in scores.items():
            line(f"Figure: {write_figure(found, svg / f'credit-{name}.svg')}")


def _exact(name: str, **settings: Any) -> World:
    """The world of this name, if its exact values are known."""
    from podium.worlds import EMBEDDED, World, get

    if type(get(name)).dynamics is World.dynamics:
        known = [one for one, kind in EMBEDDED.items() if kind.dynamics is not World.dynamics]
        raise PodiumError(f"The exact values of the world {name!r} are not known: choose {' or '.join(known)}.")
    return get(name, **settings)


def _numbers(text: str, option: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise PodiumError(f"{option} = {text!r} must be numbers with commas between them, such as 4,8.") from None
    low = 1 if option == "--rollouts" else 0
    if any(not low <= x < float("inf") for x in found) or (low and any(x != int(x) for x in found)):
        raise PodiumError(f"{option} = {text!r}: {'whole numbers from 1' if low else 'numbers from 0'} on are needed.")
    return found
