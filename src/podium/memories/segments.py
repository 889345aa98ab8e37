"""Segments of trees that an iteration had too many of, kept for a later one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import State
from podium.core.part import Columns
from podium.memories.replay import Kept, beside, dated, young

__all__ = ["WaitingSegments"]


class WaitingSegments(Kept):
    """Segments that `TakeSegments` left wait, and as many as it misses are drawn from them; each is trained once.

    They come back in their rollouts, with the advantages and log-probabilities of their time. `batch.replay.stored` is
    how many wait.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    size: int = 8192  # segments that wait at most, the newest
    max_age: int = 5  # iterations, at most 10; 0: what is left is forgotten

    needs = ("node.waiting", "batch.segments.missing")

    def __post_init__(self) -> None:
        within(self, "size", 1)
        within(self, "max_age", 0)

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        waiting = 0.0 if state["rows"] is None else float(state["rows"]["node.waiting"].sum())
        return super().recall(state, tasks) | {"batch.replay.stored": torch.tensor([waiting])}

    def drawn(self, state: State, rows: Batch, batch: Batch, chance: Tensor) -> tuple[Tensor, Columns]:
        chosen = _chosen(rows, batch.seed, batch["batch.segments.missing"])
        return rows.partition("node", "rollout").agg.any(chosen).nonzero().reshape(-1), {"node.keep.taken": chosen}

    def observe(self, state: State, batch: Batch) -> State:
        iteration, rows, missing = state["iteration"] + 1, state["rows"], batch["batch.segments.missing"]
        if rows is not None:
            rows = rows.with_columns({"node.waiting": rows["node.waiting"] & ~_chosen(rows, batch.seed, missing)})
        new = batch.partition("node", "rollout").agg.any(batch["node.waiting"]) & batch.trained("rollout", empty=True)
        if bool(new.any()):
            order = torch.argsort(batch.identity("rollout"), stable=True)
            left = dated(batch.take("rollout", order[new[order]]), iteration)
            rows = left if rows is None else beside(rows, left)
        if rows is not None:
            waiting = rows.partition("node", "rollout").agg.count(rows["node.waiting"])
            newest = waiting.flip(0).cumsum(0).flip(0) <= self.size
            kept = (waiting > 0) & newest & young(rows["rollout.stored"], iteration + 1, self.max_age)
            rows = rows.take("rollout", kept) if bool(kept.any()) else None
        return {"rows": rows, "iteration": iteration}


def _chosen(rows: Batch, seed: int, missing: Tensor) -> Tensor:
    """[stored node] which of those that wait are trained now."""
    rows = rows.with_columns({})
    rows.seed = seed  # the chance of today
    place = rows.by("node").rank(rows.random("node", "segments"), where=rows["node.waiting"])
    return (place >= 0) & (place < int(missing))
