"""What earlier policies did, kept for a critic to learn from."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import State
from podium.core.part import Columns
from podium.memories.replay import Kept, beside, dated

__all__ = ["Transitions"]


class Transitions(Kept):
    """Keeps whole rollouts, and brings some back, drawn at random, beside those of an iteration.

    A critic that learns by temporal differences may learn from any policy's turns; a policy may not, so that its terms
    take `where="group.fresh"`. What models said of stored rollouts is forgotten: it is computed anew.
    """

    reference = "ArCHer, https://github.com/YifeiZhou02/ArCHer"
    turns: int = 100_000  # that are kept at most, the newest
    count: int | None = None  # rollouts brought back an iteration; None: as many as it has of its own

    def __post_init__(self) -> None:
        within(self, "turns", 1)
        within(self, "count", 0, optional=True)

    def drawn(self, state: State, rows: Batch, batch: Batch, chance: Tensor) -> tuple[Tensor, Columns]:
        count = int(batch.trained("rollout").sum()) if self.count is None else self.count
        return torch.argsort(chance)[:count], {}

    def observe(self, state: State, batch: Batch) -> State:
        iteration, trained = state["iteration"] + 1, batch.trained("rollout")
        rows: Batch | None = state["rows"]
        if bool(trained.any()):
            order = torch.argsort(batch.identity("rollout"), stable=True)
            new = dated(batch.take("rollout", order[trained[order]]), iteration)
            new = new.without([c for c in new.columns if ".value[" in c])
            rows = new if rows is None else beside(rows, new)
            turns = rows.partition("turn", "rollout").lengths()
            kept = turns.flip(0).cumsum(0).flip(0) <= self.turns
            rows = rows if bool(kept.all()) else rows.take("rollout", kept) if bool(kept.any()) else None
        return {"rows": rows, "iteration": iteration}
