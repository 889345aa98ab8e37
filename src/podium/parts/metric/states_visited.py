"""How much of a world the rollouts see."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Metric

__all__ = ["StatesVisited"]


class StatesVisited(Metric):
    """Reports how many different states the turns of a rollout lead to, the mean over the rollouts that count."""

    needs = ("turn.next_state",)
    provides = ("batch.states_visited",)

    def __call__(self, batch: Batch) -> Columns:
        states = batch.by("turn", "rollout", "turn.next_state")
        share = 1 / states.agg.count().clamp(min=1).to(batch.dtype)  # of a state, for each turn that leads to it
        visited = batch.reduce(share[states.index], "turn", "rollout", "sum")
        return {"batch.states_visited": batch.by("rollout").agg.mean(visited)}
