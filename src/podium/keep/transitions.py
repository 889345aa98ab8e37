"""What earlier policies did, kept for a critic to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch, Purpose
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.keep.replay import beside

__all__ = ["Transitions"]


class Transitions(Memory):
    """Keeps whole rollouts, and brings some back, drawn at random, beside those of an iteration.

    A critic that learns by temporal differences may learn from any policy's turns; a policy may not, so that its terms
    take `where="group.fresh"`. What models said of stored rollouts is forgotten: it is computed anew.
    """

    reference = "ArCHer, https://github.com/YifeiZhou02/ArCHer"
    turns: int = 100_000  # that are kept at most, the newest
    count: int | None = None  # rollouts brought back an iteration; None: as many as it has of its own

    provides = ("group.fresh", "batch.replay.stored")

    def __post_init__(self) -> None:
        within(self, "turns", 1)
        within(self, "count", 0, optional=True)

    def initial(self) -> State:
        return {"rows": None, "iteration": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        stored = 0 if state["rows"] is None else len(state["rows"])
        fresh = torch.ones(len(tasks), dtype=torch.bool)
        return {"group.fresh": fresh, "batch.replay.stored": torch.tensor([float(stored)])}

    def replay(self, state: State, batch: Batch) -> Batch | None:
        rows: Batch | None = state["rows"]
        count = int(batch.trained("rollout").sum()) if self.count is None else self.count
        if rows is None or not count:
            return None
        rows = rows.with_columns({})
        rows.seed = batch.seed  # the chance of today
        again = rows.take("rollout", torch.argsort(rows.random("rollout", "replay"))[:count].sort().values)
        return again.with_columns(
            {
                "rollout.purpose": torch.full((len(again),), int(Purpose.demo)),  # in no statistics of today
                "rollout.weight.replay": torch.ones(len(again), dtype=rows.dtype),
                "group.fresh": torch.zeros(again.size("group"), dtype=torch.bool),
            }
        )

    def observe(self, state: State, batch: Batch) -> State:
        iteration, trained = state["iteration"] + 1, batch.trained("rollout")
        rows: Batch | None = state["rows"]
        if bool(trained.any()):
            order = torch.argsort(batch.identity("rollout"), stable=True)
            new = _plain(batch.take("rollout", order[trained[order]]), iteration)
            rows = new if rows is None else beside(rows, new)
            turns = rows.partition("turn", "rollout").lengths()
            kept = turns.flip(0).cumsum(0).flip(0) <= self.turns
            rows = rows if bool(kept.all()) else rows.take("rollout", kept) if bool(kept.any()) else None
        return {"rows": rows, "iteration": iteration}


def _plain(batch: Batch, iteration: int) -> Batch:
    """Rollouts without what belongs to their batch, or what a model has said of them but how likely they were."""
    said = [c for c in batch.columns if c.startswith("batch.") or ".value[" in c]
    said += [c for c in batch.columns if c.endswith(".logp") and not c.startswith(("token.old.", "token.sampler."))]
    names = batch["group.uid"] if "group.uid" in batch else batch["group.task"]
    names = names.tolist() if isinstance(names, torch.Tensor) else names
    stored = batch.without(said).with_columns({"group.uid": [(name, iteration) for name in names]})
    return stored.to(device="cpu").without_relations()
