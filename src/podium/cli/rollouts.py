"""`podium rollouts`: the rollouts of a run, as conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line
from podium.core.errors import PodiumError, nearest

__all__ = ["rollouts"]


def rollouts(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    iteration: Annotated[int | None, typer.Option(help="The iteration to read. [default: the last]")] = None,
    task: Annotated[str | None, typer.Option(help="Print only rollouts of this task.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Print only rollouts in which the world failed.")] = False,
    count: Annotated[int, typer.Option(help="The largest number of rollouts to print.")] = 3,
) -> None:
    """Print rollouts of a run as conversations.

    Each has its turns, the answers of the world, rewards and credit, and the reason why it ended.
    """
    from podium.report.conversation import conversation, conversation_text, read_rollouts
    from podium.store.retention import examples_kept, kept_text, rollout_files
    from podium.store.run_directory import RunDirectory

    directory = RunDirectory(run)
    directory.read_config()  # refuses a directory that is not a run
    files = rollout_files(run)
    if not files:
        raise PodiumError(f"{run} has no rollouts yet.")
    file = files[-1] if iteration is None else directory.rollouts(iteration)
    if file not in files:
        first, last = (int(f.stem.partition("-")[2]) for f in (files[0], files[-1]))
        raise PodiumError(f"{run} has no rollouts of iteration {iteration}: it has those from {first} to {last}.")
    rows = read_rollouts(file)
    if examples_kept(file) is not None:
        line(f"The run keeps rollouts of {kept_text(files)} (keep_rollouts_gb, keep_examples).", style="dim")
    if task is not None:
        tasks = list(dict.fromkeys(str(row["task"]) for row in rows))
        if task not in tasks:
            raise PodiumError(f"No rollout of {file.stem} has the task {task!r}. {nearest(task, tasks)}")
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
        line(f"No rollout of {file.stem} matches.")
