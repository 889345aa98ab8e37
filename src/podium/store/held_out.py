"""Examples of held-out answers: those of the same few tasks at every evaluation, so that before and after compare."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.store.files import atomic_text
from podium.store.json_lines import read_object
from podium.store.tables import by_iteration

__all__ = ["example_rows", "held_out_examples", "write_held_out"]

TASKS = 8  # the first answer to each of them is kept
OF_TURNS = ("action", "observation", "reward", "valid", "agent", "role")
OF_ROLLOUTS = ("prompt", "text", "correct", "reward", "stop", "failure", "purpose")


def example_rows(groups: Sequence[Sequence[Rollout]]) -> list[dict[str, Any]]:
    """The first answer to each of the first tasks, in the form of recorded rollouts."""
    rows = []
    for rollout in (group[0] for group in groups[:TASKS] if group):
        row: dict[str, Any] = {"task": str(rollout.task), "turn.length": [len(turn.ids) for turn in rollout.turns]}
        row |= {name: rollout.columns[name] for name in OF_ROLLOUTS if name in rollout.columns}
        for name in OF_TURNS:
            if all(name in turn.columns for turn in rollout.turns):
                row[f"turn.{name}"] = [turn.columns[name] for turn in rollout.turns]
        rows.append(row)
    return rows


def write_held_out(run: Path, iteration: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the examples of an evaluation."""
    folder = run / "held_out"
    folder.mkdir(exist_ok=True)
    atomic_text(folder / f"iteration-{iteration:06d}.json", json.dumps({"rollouts": list(rows)}, default=str))


def held_out_examples(run: Path) -> dict[int, list[dict[str, Any]]]:
    """The examples of each evaluation, by iteration; those that cannot be read are left out."""
    found = {}
    for iteration, file in by_iteration(run / "held_out", ".json").items():
        try:
            rows = read_object(file).get("rollouts")
        except PodiumError:
            continue
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            found[iteration] = rows
    return found
