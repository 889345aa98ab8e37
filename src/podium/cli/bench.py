"""`podium bench`: how good estimators are where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line, table
from podium.cli.load import load
from podium.core.errors import PodiumError

__all__ = ["app"]

app = typer.Typer(help="Measure estimators against the truth.", no_args_is_help=True)

COMPARED = ("grpo", "rloo", "reinforce", "ppo")  # beside every method of the family `turns`


@app.callback()
def group() -> None:
    """Keeps `podium bench credit` a command of its own, however many there are."""


@app.command()
def credit(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[METHOD]...", help="Methods; default: those of many turns.")
    ] = None,
    level: Annotated[int, typer.Option(help="Of the world keydoor.")] = 3,
    slip: Annotated[float, typer.Option(help="The chance that going leads elsewhere.")] = 0.0,
    strength: Annotated[str, typer.Option(help="Of the policies; 0 is random.")] = "0.25,0.5,1",
    rollouts: Annotated[str, typer.Option(help="How many of each task.")] = "8",
    tasks: Annotated[int, typer.Option(help="How many tasks.", min=1)] = 8,
    seeds: Annotated[int, typer.Option(help="How many batches.", min=1)] = 20,
    noise: Annotated[float, typer.Option(help="Standard deviation of the errors of the noisy values.", min=0)] = 0.1,
    out: Annotated[Path | None, typer.Option(help="A file for tables and figure, as one HTML page.")] = None,
) -> None:
    """Hold the credit of each step against its exact advantage, in a world where that is known.

    Policies of several strengths, as tables, walk through houses of keys and doors; every method credits the same
    rollouts.
    """
    from podium.evaluation.credit import Score, compare, fitting, references
    from podium.methods.catalogue import CATALOGUE
    from podium.report.credit import HEADER, NOTE, cells, heading, settings, write_credit
    from podium.worlds import KeyDoor

    world = KeyDoor(level=level, slip=slip)
    strengths = _numbers(strength, "--strength")
    counts = [int(x) for x in _numbers(rollouts, "--rollouts")]
    chosen = names or [*COMPARED, *(slug for slug, entry in CATALOGUE.items() if entry.family == "turns")]
    estimators, refused = fitting([load(name, ()) for name in chosen])
    if names and refused:
        raise PodiumError(next(iter(refused.values())))
    scores: list[Score] = []
    for value in strengths:
        for count in counts:
            found = compare(
                [*estimators, *references(noise)],
                world,
                strength=value,
                rollouts=count,
                tasks=tasks,
                seeds=seeds,
            )
            scores += found
            line(heading(found[0]))
            table(HEADER, [cells(score) for score in found])
            line()
    line(NOTE)
    for reason in refused.values():
        line(f"Left out: {reason}", style="yellow")
    if out is not None:
        title = f"Credit on {world.family}, {len(settings(scores))} settings, {tasks} tasks, {seeds} seeds"
        line(f"Figure: {write_credit(scores, out, title)}")


def _numbers(text: str, option: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise PodiumError(f"{option} = {text!r} must be numbers with commas between them, such as 4,8.") from None
    low = 1 if option == "--rollouts" else 0
    if any(not low <= x < float("inf") for x in found) or (low and any(x != int(x) for x in found)):
        raise PodiumError(f"{option} = {text!r}: {'whole numbers from 1' if low else 'numbers from 0'} on are needed.")
    return found
