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
    from podium.report.conversation import conversation_text, read_rollouts
    from podium.store.retention import examples_kept, kept_text
    from podium.store.run_directory import RunDirectory
    from podium.store.tables import numbered

    directory = RunDirectory(run)
    directory.read_config()  # refuses a directory that is not a run
    files = numbered(run / "rollouts", ".parquet")
    if not files:
        raise PodiumError(f"{run} has no rollouts yet.")
    first, last = min(files), max(files)
    file = files.get(last if iteration is None else iteration)
    if file is None:
        raise PodiumError(f"{run} has no rollouts of iteration {iteration}: it has those from {first} to {last}.")
    talks = read_rollouts(file)
    if examples_kept(file) is not None:
        kept = kept_text(files.values())
        line(f"The run keeps rollouts of {kept} (keep_rollouts_gb, keep_examples).", style="dim")
    if task is not None:
        tasks = list(dict.fromkeys(talk.task for talk in talks))
        if task not in tasks:
            raise PodiumError(f"No rollout of {file.stem} has the task {task!r}. {nearest(task, tasks)}")
        talks = [talk for talk in talks if talk.task == task]
    if failed:
        talks = [talk for talk in talks if talk.verdict == "failed"]
    for number, talk in enumerate(talks[:count]):
        if number:
            line()
        line(conversation_text(talk))
    if len(talks) > count:
        line(f"({len(talks) - count} more: --count {len(talks)})", style="dim")
    if not talks:
        line(f"No rollout of {file.stem} matches.")
