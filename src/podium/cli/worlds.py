"""`podium worlds`: list the worlds, play one, check one of your own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from podium.cli.commands import Commands
from podium.cli.console import line, table
from podium.core.errors import PodiumError

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    help="List, play and check worlds, which pose the tasks.",
    invoke_without_command=True,
)

Name = Annotated[str, typer.Argument(help="A world: sums, jsonl:FILE, lookup:FOLDER, gym:NAME, file.py:MyWorld.")]


@app.callback()
def listing(context: typer.Context) -> None:
    """List, play and check worlds, which pose the tasks."""
    from podium import worlds

    if context.invoked_subcommand is None:
        rows = [[w.name, ", ".join(map(str, w.levels)), w.summary] for w in worlds.EMBEDDED.values()]
        table(["world", "levels", "what it asks"], rows)
        table(["bridge", "what it asks"], [[f"{name}:NAME", w.summary] for name, w in worlds.BRIDGES.items()])
        others = [form for form in worlds.FORMS if form.partition(":")[0] not in worlds.BRIDGES]
        line(f"Also: {', '.join(others)}.")


@app.command()
def play(
    name: Name,
    level: Annotated[int | None, typer.Option(help="The difficulty of the task.")] = None,
    task: Annotated[int, typer.Option(help="The number of the task.")] = 0,
    pictures: Annotated[Path | None, typer.Option(help="A folder for the pictures that are shown, as PNG.")] = None,
) -> None:
    """Play one task of a world yourself."""
    from podium import worlds

    world = worlds.get(name, **({} if level is None else {"level": level}))
    with closing(world):
        worlds.play(world, task, input, line, pictures=pictures)


@app.command()
def check(name: Name) -> None:
    """Check that a world is deterministic, can be copied, gives valid rewards and ends its episodes."""
    from podium import worlds

    with closing(worlds.get(name)) as world:
        findings, remarks = worlds.check_world(world), world.remarks()
    for remark in remarks:
        line(remark)
    for finding in findings:
        line(f"- {finding}")
    if findings:
        raise PodiumError(f"{name} has {len(findings)} fault{'s' * (len(findings) > 1)}.")
    line(f"{name} is fine.")
