"""A token-level baseline for turn-level advantages."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Shape, stop_gradient
from podium.parts.objective.turn_critic import BASELINE_LATEST, BASELINE_OLD, REFERENCE

__all__ = ["TokenBaseline"]


class TokenBaseline(Shape):
    """Token-level baseline: A_t = A − b_t, A of the turn and b_t from a separate head of the critic."""

    reference = REFERENCE
    latest: bool = False  # whether b_t comes from the critic as it is at each update, instead of before the first

    provides = ("token.advantage",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("turn.advantage", BASELINE_LATEST if self.latest else BASELINE_OLD)

    def __call__(self, batch: Batch) -> Columns:
        baseline = stop_gradient(batch[BASELINE_LATEST if self.latest else BASELINE_OLD])
        return {"token.advantage": batch.spread(batch["turn.advantage"], "turn", "token") - baseline}
