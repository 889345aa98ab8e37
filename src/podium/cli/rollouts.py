"""`podium rollouts`: what a run has written, as conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line
from podium.core.errors import PodiumError, nearest

__all__ = ["rollouts"]


def rollouts(
    run: Annotated[Path, typer.Argument(help="A run's directory.")],
    iteration: Annotated[int | None, typer.Option(help="Of which iteration. [default: the last]")] = None,
    task: Annotated[str | None, typer.Option(help="Of this task alone.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Those in which the world failed.")] = False,
    count: Annotated[int, typer.Option(help="How many at most.")] = 3,
) -> None:
    """Read what a run has written: each turn, what the world answered, its reward and credit, and why it ended."""
    from podium.report.conversation import conversation, conversation_text, read_rollouts
    from podium.store.run_directory import RunDirectory

    directory = RunDirectory(run)
    directory.read_config()  # refuses what is no run
    files = sorted((run / "rollouts").glob("iteration-*.parquet"))
    if not files:
        raise PodiumError(f"{run} has no rollouts yet.")
    file = files[-1] if iteration is None else directory.rollouts(iteration)
    if file not in files:
        first, last = (int(f.stem.partition("-")[2]) for f in (files[0], files[-1]))
        raise PodiumError(f"{run} has no rollouts of iteration {iteration}: it has those from {first} to {last}.")
    rows = read_rollouts(file)
    if task is not None:
        known = list(dict.fromkeys(str(row["task"]) for row in rows))
        if task not in known:
            raise PodiumError(f"No rollout of {file.stem} has the task {task!r}. {nearest(task, known)}")
        rows = [row for row in rows if str(row["task"]) == task]
    if failed:
        rows = [row for row in rows if row.get("failure")]
    for number, row in enumerate(rows[:count]):
        if number:
            line()
        line(conversation_text(conversation(row)))
    if len(rows) > count:
        line(f"({len(rows) - count} more: --count {len(rows)})", style="dim")
    if not rows:
        line(f"None of the rollouts of {file.stem} is like that.")
