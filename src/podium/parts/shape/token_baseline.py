"""A token-level baseline for turn-level advantages."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Shape
from podium.parts.objective.turn_critic import BASELINE_OLD, REFERENCE

__all__ = ["TokenBaseline"]


class TokenBaseline(Shape):
    """Token-level baseline: A_t = A − b_t, A of the turn and b_t from a separate head of the critic."""

    reference = REFERENCE

    needs = ("turn.advantage", BASELINE_OLD)
    provides = ("token.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        return {"token.advantage": batch.spread(batch["turn.advantage"], "turn", "token") - batch[BASELINE_OLD]}
