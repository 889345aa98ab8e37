"""How many messages a conversation has, and how well its tool calls went."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns

__all__ = ["CountMessages"]


class CountMessages(Annotate):
    """Writes `rollout.messages`: two for each turn, what the model was shown and what it wrote."""

    provides = ("rollout.messages",)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.messages": 2 * batch.partition("turn", "rollout").lengths().to(batch.dtype)}
