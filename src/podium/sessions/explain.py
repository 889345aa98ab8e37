"""Why the rollouts of a run earned nothing: each is graded again, and the grader says what it read and expected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium import worlds
from podium.core.errors import PodiumError
from podium.protocols.world import FailedAction, World
from podium.store.run_directory import RunDirectory
from podium.store.tables import read_rows, read_schema
from podium.training.config import Config
from podium.worlds.graded import Graded

__all__ = ["Reason", "reason_kind", "reasons"]

COLUMNS = ("task", "text", "correct", "reward", "failure", "stop", "turn.action")
UNKNOWN = "the world gives no reasons"


@dataclass(frozen=True)
class Reason:
    """Why a rollout is not right."""

    task: str
    text: str
    reward: float
    why: str


def reasons(run: Path, file: Path, *, trust: bool = False) -> tuple[list[Reason], int]:
    """The reasons for the rollouts of a file that are not right, and how many rollouts it has."""
    names = read_schema(file).names
    rows = [row for row in read_rows(file, [name for name in COLUMNS if name in names]) if row["text"] is not None]
    config = Config.of_run(RunDirectory(run), trust=trust, leave_out=("method",))
    world = worlds.isolated(config.world, config.world_settings, isolation=config.isolation)
    with closing(world):
        found = [
            Reason(str(row["task"]), str(row["text"]), float(row["reward"]), _why(world, row))
            for row in rows
            if not row["correct"]
        ]
    return found, len(rows)


def _why(world: World, row: dict[str, Any]) -> str:
    if row.get("failure"):
        return str(row["failure"])
    cut = ", and the limit of tokens cut it off" if row.get("stop") == "length" else ""
    place = re.search(r"/(train|test)/(\d+)$", str(row["task"]))
    actions: Sequence[str] = row.get("turn.action") or [row["text"]]
    if not isinstance(world, Graded) or place is None or len(actions) != 1:
        return UNKNOWN + cut
    try:
        why = world.why(world.task(int(place[2]), place[1]), str(actions[0]))
    except FailedAction as failure:
        return str(failure)
    except PodiumError as error:  # the data have changed
        return f"{UNKNOWN}: {error}"
    return (why or "the grader would accept it now") + cut


def reason_kind(why: str) -> str:
    """A reason without what differs from rollout to rollout, such as what was read."""
    return re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "…", why)
