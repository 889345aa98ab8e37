"""A recorded iteration as a batch again: what was sampled and what the world said, without what a method made of it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.errors import PodiumError

__all__ = ["GROUP", "ROW", "computed_columns", "recorded_batch"]

Row = Mapping[str, Any]
PLACES = ("iteration", "task", "group")
STEPS = ("segment", "node")  # levels whose elements are numbered along a rollout
OF_TURNS = ("turn.length", "turn.context", "turn.train_context")
GROUP, ROW = "group.recorded", "rollout.recorded"  # where a group and a rollout stand in the record


def computed_columns(rows: Sequence[Row], provided: Container[str], roles: Container[str]) -> set[str]:
    """The recorded columns that the method of the run has written: those its parts provide, credit, and the signals of
    its roles. What was sampled, and the log-probabilities of the policy that sampled it, are not among them."""
    computed = set()
    for name in rows[0]:
        level, _, rest = name.partition(".")
        is_step = level in ("token", "turn", *STEPS)
        whole = name if is_step else f"rollout.{name}"
        source = rest.partition(".")[0]
        of_role = is_step and (source in roles or (source in ("old", "now") and rest != "old.logp"))
        if whole in provided or of_role or (rest if is_step else name) == "advantage":
            computed.add(name)
    return computed - {"reward"}


def recorded_batch(rows: Sequence[Row], computed: Container[str] = (), *, seed: int = 0) -> Batch:
    """The batch of the rows of an iteration, without the columns that are `computed`."""
    if "token.id" not in rows[0]:
        raise PodiumError("Only examples of this iteration are kept: their tokens are gone (keep_rollouts_gb).")
    kept = [{name: value for name, value in row.items() if name not in computed} for row in rows]
    batch = Batch.from_rollouts([_rollout(row) for row in kept], seed=seed)
    numbers = list(dict.fromkeys(row["group"] for row in rows))
    return batch.with_columns({GROUP: torch.arange(len(numbers)), ROW: torch.arange(len(rows))})


def _rollout(row: Row) -> Rollout:
    lengths = row["turn.length"]
    ends = list(accumulate(lengths))
    steps = {level: row[f"{level}.length"] for level in STEPS if f"{level}.length" in row}
    numbered = {level: [n for n, size in enumerate(sizes) for _ in range(size)] for level, sizes in steps.items()}
    tokens = {n.removeprefix("token."): v for n, v in row.items() if n.startswith("token.") and v is not None}
    tokens = {n: v for n, v in tokens.items() if n not in ("id", "origin")} | numbered
    origin = row.get("token.origin")
    turns = []
    for number, (length, end) in enumerate(zip(lengths, ends, strict=True)):
        span = slice(end - length, end)
        own = {
            n.removeprefix("turn."): v[number] for n, v in row.items() if n.startswith("turn.") and n not in OF_TURNS
        }
        trained = row.get("turn.train_context")
        turns.append(
            Turn(
                ids=row["token.id"][span],
                context=row["turn.context"][number],
                train_context=None if trained is None else trained[number],
                origin=None if origin is None else [Origin(value).name for value in origin[span]],
                columns=own,
                tokens={name: values[span] for name, values in tokens.items()},
            )
        )
    levels = ("token", "turn", "pair", *STEPS)
    of_steps = {
        level: {
            n.removeprefix(f"{level}."): v
            for n, v in row.items()
            if n.startswith(f"{level}.") and n != f"{level}.length"
        }
        for level in ("pair", *STEPS)
    }
    return Rollout(
        task=row["task"],
        turns=turns,
        group=row["group"],
        columns={n: v for n, v in row.items() if n not in PLACES and n.partition(".")[0] not in levels},
        segments=of_steps["segment"],
        nodes=of_steps["node"],
        pairs=of_steps["pair"],
    )
