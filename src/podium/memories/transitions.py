"""An off-policy replay buffer for a critic."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import State
from podium.core.part import Columns
from podium.memories.replay import Kept, for_storage, join_batches

__all__ = ["Transitions"]


class Transitions(Kept):
    """An off-policy replay buffer of whole rollouts, drawn uniformly, for a critic that learns by temporal differences.

    Such a critic may learn from any policy's turns; the policy may not, so its terms take `where="group.fresh"`. Values
    are not stored: they are computed anew.
    """

    reference = "ArCHer, https://github.com/YifeiZhou02/ArCHer"
    turns: int = 100_000  # capacity in turns, the newest are kept, ≥ 1
    count: int | None = None  # rollouts replayed per iteration, ≥ 0; None: as many as it has fresh ones

    def __post_init__(self) -> None:
        within(self, "turns", 1)
        within(self, "count", 0, optional=True)

    def draw(self, state: State, rows: Batch, batch: Batch, random: Tensor) -> tuple[Tensor, Columns]:
        count = int(batch.trained("rollout").sum()) if self.count is None else self.count
        return torch.argsort(random)[:count], {}

    def observe(self, state: State, batch: Batch) -> State:
        iteration, trained = state["iteration"] + 1, batch.trained("rollout")
        rows: Batch | None = state["rows"]
        if bool(trained.any()):
            order = torch.argsort(batch.identity("rollout"), stable=True)
            new = for_storage(batch.take("rollout", order[trained[order]]), iteration)
            new = new.without([c for c in new.columns if ".value[" in c])
            rows = new if rows is None else join_batches(rows, new)
            turns = rows.partition("turn", "rollout").lengths()
            kept = turns.flip(0).cumsum(0).flip(0) <= self.turns
            rows = rows if bool(kept.all()) else rows.take("rollout", kept) if bool(kept.any()) else None
        return {"rows": rows, "iteration": iteration}
