"""Experts' answers and trajectories from a file, by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from podium.core.errors import PodiumError
from podium.protocols.world import World
from podium.store.json_lines import objects, text_of

__all__ = ["Traces", "check_traces", "existing", "read_traces"]

TEXTS = ("text", "completion", "response", "solution", "answer", "output")
Traces = Mapping[str, Sequence[tuple[str, ...]]]  # by the key of a task: the texts of the turns of each trace


def read_traces(file: str, text_field: str = "") -> Traces:
    """The traces of a file of JSON lines: each has the key of its `task` (such as sums-2/train/17), and a text or, for
    several turns, `turns`, a list of texts."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for line, data in objects(file):
        where = f"{file}, line {line}"
        name = text_of(data, "", ("task", "id", "task_id"), "a field `task`", where)
        turns = data.get("turns")
        if turns is None:
            turns = [text_of(data, text_field, TEXTS, "text_field", where)]
        if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) for turn in turns):
            raise PodiumError(f"{where}: `turns` must be a list of texts, one for each turn.")
        found.setdefault(name, []).append(tuple(turns))
    return found


def check_traces(file: str, traces: Traces, world: World) -> None:
    """Refuse a file whose tasks are named otherwise than those of the world."""
    kind = world.task(0).key.rpartition("/")[0]
    if not any(name.rpartition("/")[0] == kind for name in traces):
        raise PodiumError(
            f"{file} has answers to tasks such as {next(iter(traces))!r}, but the tasks of this world are named like "
            f"{world.task(0).key!r}: none of them would get help. Name the tasks in the file as the world does."
        )


def existing(file: str, otherwise: str) -> str:
    """The file, refused if it does not exist."""
    if not Path(file).exists():
        raise PodiumError(
            f"There is no file of experts' answers {file!r} (looked in {Path.cwd()}). Name one with an answer a line, "
            f"or none: {otherwise}."
        )
    return file
