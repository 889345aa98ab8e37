"""`podium rollouts`: the rollouts of a run, as conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line
from podium.cli.options import Trust
from podium.core.errors import PodiumError, nearest

__all__ = ["rollouts"]


def rollouts(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    iteration: Annotated[int | None, typer.Option(help="The iteration to read. [default: the last]")] = None,
    task: Annotated[str | None, typer.Option(help="Print only rollouts of this task.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Print only rollouts in which the world failed.")] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Say why rollouts are not right: how often for each reason, with examples.")
    ] = False,
    trust: Trust = False,
    count: Annotated[int, typer.Option(help="The largest number of rollouts to print.")] = 3,
) -> None:
    """Print rollouts of a run as conversations.

    Each has its turns, the answers of the world, rewards and credit, and the reason why it ended.
    """
    from podium.report.conversation import conversation_text, read_rollouts
    from podium.store.retention import examples_kept, kept_text
    from podium.store.run_directory import RunDirectory
    from podium.store.tables import rollout_files

    directory = RunDirectory(run)
    directory.read_config()  # refuses a directory that is not a run
    files = rollout_files(run)
    if not files:
        raise PodiumError(f"{run} has no rollouts yet.")
    first, last = min(files), max(files)
    file = files.get(last if iteration is None else iteration)
    if file is None:
        raise PodiumError(f"{run} has no rollouts of iteration {iteration}: it has those from {first} to {last}.")
    if why:
        _show_reasons(run, file, trust, count)
        return
    conversations = read_rollouts(file)
    if examples_kept(file) is not None:
        kept = kept_text(files)
        line(f"The run keeps rollouts of {kept} (keep_rollouts_gb, keep_examples).", style="dim")
    if task is not None:
        tasks = list(dict.fromkeys(each.task for each in conversations))
        if task not in tasks:
            raise PodiumError(f"No rollout of {file.stem} has the task {task!r}. {nearest(task, tasks)}")
        conversations = [each for each in conversations if each.task == task]
    if failed:
        conversations = [each for each in conversations if each.verdict == "failed"]
    for number, shown in enumerate(conversations[:count]):
        if number:
            line()
        line(conversation_text(shown))
    if len(conversations) > count:
        line(f"({len(conversations) - count} more: --count {len(conversations)})", style="dim")
    if not conversations:
        line(f"No rollout of {file.stem} matches.")


def _show_reasons(run: Path, file: Path, trust: bool, count: int) -> None:
    """How often rollouts are not right for each kind of reason, with examples."""
    from podium.core.printable import printable
    from podium.sessions.explain import Reason, reason_kind, reasons

    found, total = reasons(run, file, trust=trust)
    line(f"{file.stem}: {len(found)} of {total} rollouts are not right.", style="bold")
    kinds: dict[str, list[Reason]] = {}
    for reason in found:
        kinds.setdefault(reason_kind(reason.why), []).append(reason)
    for kind, members in sorted(kinds.items(), key=lambda item: -len(item[1])):
        line()
        line(f"{len(members)} × {printable(kind)}", style="bold")
        for example in members[:count]:
            line(f"  {example.task} (reward {example.reward:g}): {printable(example.why)}")
            line(printable("\n".join(f"  > {row}" for row in example.text.splitlines()[-3:])), style="dim")
