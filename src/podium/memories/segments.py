"""A buffer of surplus tree segments, trained in a later iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import State
from podium.core.part import Columns
from podium.memories.replay import Kept, for_storage, is_recent, join_batches

__all__ = ["WaitingSegments"]


class WaitingSegments(Kept):
    """Stores the segments that `TakeSegments` left over and fills up later iterations that have too few.

    Each segment is trained once, within its rollout and with the advantages and log-probabilities of when it was
    sampled. `batch.replay.stored` is the number of segments that wait.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    size: int = 8192  # capacity in segments, the newest are kept, ≥ 1
    max_age: int = 5  # iterations, ≥ 0, never more than 10; 0: nothing is stored

    needs = ("node.waiting", "batch.segments.missing")

    def __post_init__(self) -> None:
        within(self, "size", 1)
        within(self, "max_age", 0)

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        waiting = 0.0 if state["rows"] is None else float(state["rows"]["node.waiting"].sum())
        return super().recall(state, tasks) | {"batch.replay.stored": torch.tensor([waiting])}

    def draw(self, state: State, rows: Batch, batch: Batch, random: Tensor) -> tuple[Tensor, Columns]:
        chosen = _chosen(rows, batch.seed, batch["batch.segments.missing"])
        return rows.partition("node", "rollout").agg.any(chosen).nonzero().reshape(-1), {"node.keep.taken": chosen}

    def observe(self, state: State, batch: Batch) -> State:
        iteration, rows, missing = state["iteration"] + 1, state["rows"], batch["batch.segments.missing"]
        if rows is not None:
            rows = rows.with_columns({"node.waiting": rows["node.waiting"] & ~_chosen(rows, batch.seed, missing)})
        new = batch.partition("node", "rollout").agg.any(batch["node.waiting"]) & batch.trained("rollout", empty=True)
        if bool(new.any()):
            order = torch.argsort(batch.identity("rollout"), stable=True)
            left_over = for_storage(batch.take("rollout", order[new[order]]), iteration)
            rows = left_over if rows is None else join_batches(rows, left_over)
        if rows is not None:
            waiting = rows.partition("node", "rollout").agg.count(rows["node.waiting"])
            newest = waiting.flip(0).cumsum(0).flip(0) <= self.size
            kept = (waiting > 0) & newest & is_recent(rows["rollout.stored"], iteration + 1, self.max_age)
            rows = rows.take("rollout", kept) if bool(kept.any()) else None
        return {"rows": rows, "iteration": iteration}


def _chosen(rows: Batch, seed: int, missing: Tensor) -> Tensor:
    """[stored node] Whether it is trained now: as many of the waiting ones as are missing, at random."""
    rows = rows.with_columns({})
    rows.seed = seed  # random numbers differ from iteration to iteration
    rank = rows.by("node").rank(rows.random("node", "segments"), where=rows["node.waiting"])
    return (rank >= 0) & (rank < int(missing))
