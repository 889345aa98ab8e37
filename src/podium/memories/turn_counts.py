"""Percentiles of the number of turns of recent episodes, for turn budgets."""

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
    """The numbers of turns in the last `window` iterations; schedules follow the percentiles turns.p25, .p50, .p75."""

    window: int = 8  # iterations, ≥ 1

    provides = ()

    def __post_init__(self) -> None:
        within(self, "window", 1)

    def initial(self) -> State:
        return {"turns": []}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {}

    def after(self, state: State, turns: Sequence[int]) -> State:
        """The state after an iteration whose rollouts took these numbers of turns."""
        return {"turns": [*state["turns"], sorted(turns)][-self.window :]}

    def observe(self, state: State, batch: Batch) -> State:
        counts = batch.partition("turn", "rollout").lengths()
        counted = batch.counted("rollout")
        return self.after(state, (counts if counted is None else counts[counted]).tolist())

    def percentile(self, state: State, q: float) -> float:
        """The q-th percentile of the recent counts, linearly interpolated; 0 before the first iteration."""
        counts = torch.tensor([t for turns in state["turns"] for t in turns], dtype=torch.float64)
        return float(torch.quantile(counts, q / 100)) if counts.numel() else 0.0

    def scalars(self, state: State) -> dict[str, float]:
        return {f"turns.p{q}": self.percentile(state, q) for q in PERCENTILES}
