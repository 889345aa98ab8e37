"""TODO A critic of whole turns, learned by temporal differences: two values of a state, two of a state and an action."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Shape
from podium.parts.objective.turn_critic import BASELINE_OLD, REFERENCE

__all__ = ["TokenBaseline"]


class TokenBaseline(Shape):
    """A_t = A − b_t, with b what a further head says before each token."""

    reference = REFERENCE

    needs = ("turn.advantage", BASELINE_OLD)
    provides = ("token.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        return {"token.advantage": batch.spread(batch["turn.advantage"], "turn", "token") - batch[BASELINE_OLD]}
