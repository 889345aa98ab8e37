"""TODO How many turns an episode may take, from how many episodes have taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns

__all__ = ["TurnCounts"]


PERCENTILES = (25, 50, 75)


class TurnCounts(Memory):
    """How many turns the rollouts of the last `window` iterations took; its percentiles are turns.p25, .p50, .p75."""

    window: int = 8  # iterations

    provides = ()

    def __post_init__(self) -> None:
        within(self, "window", 1)

    def initial(self) -> State:
        return {"turns": []}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {}

    def after(self, state: State, turns: Sequence[int]) -> State:
        """The state after an iteration whose rollouts took so many turns."""
        return {"turns": [*state["turns"], sorted(turns)][-self.window :]}

    def observe(self, state: State, batch: Batch) -> State:
        counts = batch.partition("turn", "rollout").lengths()
        counted = batch.counted("rollout")
        return self.after(state, (counts if counted is None else counts[counted]).tolist())

    def percentile(self, state: State, q: float) -> float:
        """The q-th percentile, between two counts where it falls there; 0 before the first iteration."""
        known = torch.tensor([t for turns in state["turns"] for t in turns], dtype=torch.float64)
        return float(torch.quantile(known, q / 100)) if known.numel() else 0.0

    def scalars(self, state: State) -> dict[str, float]:
        return {f"turns.p{q}": self.percentile(state, q) for q in PERCENTILES}
