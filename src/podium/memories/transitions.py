"""An off-policy replay buffer for a critic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import State
from podium.core.part import Columns
from podium.core.streams import key
from podium.memories.replay import Kept, for_storage, join_batches
from podium.parts.objective.turn_critic import REVISITED

__all__ = ["Transitions"]


class Transitions(Kept):
    """An off-policy replay buffer of whole rollouts, drawn uniformly, for a critic that learns by temporal differences.

    Such a critic may learn from any policy's turns; the policy may not, so its terms take `where="group.fresh"`. Values
    are not stored: they are computed anew. `group.revisits` holds `revisits` contexts of stored turns for each task, at
    which a strategy may let the current policy act (`SampleAndRevisit`); what it writes there is not stored.
    """

    reference = "ArCHer, https://github.com/YifeiZhou02/ArCHer"
    turns: int = 100_000  # capacity in turns, the newest are kept, ≥ 1
    count: int | None = None  # rollouts replayed per iteration, ≥ 0; None: as many as it has fresh ones
    revisits: int = 0  # contexts per task, ≥ 0

    def __post_init__(self) -> None:
        within(self, "revisits", 0)
        within(self, "turns", 1)
        within(self, "count", 0, optional=True)

    @property
    def provides(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*Kept.provides, *(("group.revisits",) if self.revisits else ()))

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        columns = super().recall(state, tasks)
        if self.revisits:
            columns["group.revisits"] = self._contexts(state, len(tasks))
        return columns

    def _contexts(self, state: State, tasks: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each task, contexts of stored turns, drawn uniformly with replacement."""
        stored = () if state["rows"] is None else state["rows"]["turn.train_context"]
        if not stored:
            return ((),) * tasks
        chance = np.random.default_rng(key(state["iteration"], (len(stored),)))
        return tuple(tuple(stored[i] for i in chance.integers(len(stored), size=self.revisits)) for _ in range(tasks))

    @staticmethod
    def _played(batch: Batch) -> Tensor:
        """[rollout] which are trained and were played in the world."""
        trained = batch.trained("rollout")
        return trained & ~batch[REVISITED].bool() if REVISITED in batch else trained

    def draw(self, state: State, rows: Batch, batch: Batch, random: Tensor) -> tuple[Tensor, Columns]:
        count = int(self._played(batch).sum()) if self.count is None else self.count
        return torch.argsort(random)[:count], {}

    def observe(self, state: State, batch: Batch) -> State:
        iteration, trained = state["iteration"] + 1, self._played(batch)
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
