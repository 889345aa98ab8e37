"""TODO Risk over bundles of questions: binary rewards of one question are too coarse for quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.parts.advantage.bundles import REFERENCE, papers, scores

__all__ = ["QuantileTracker"]


class QuantileTracker(Memory):
    """q ← q + lr · (level − share of scores strictly below q), for each level; at first the batch's own quantiles."""

    reference = REFERENCE
    levels: tuple[float, ...] = tuple(round(0.05 * k, 2) for k in range(1, 20))
    lr: float = 0.1

    needs = ("rollout.reward", "rollout.index", "group.bundle")
    provides = ("batch.risk.levels", "batch.risk.quantiles")

    def __post_init__(self) -> None:
        within(self, "lr", 0)

    def initial(self) -> State:
        return {"quantiles": torch.full((len(self.levels),), float("nan"), dtype=torch.float64)}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        levels = torch.tensor(self.levels, dtype=torch.float64)
        return {"batch.risk.levels": levels[None], "batch.risk.quantiles": state["quantiles"][None]}

    def track(self, quantiles: Tensor, scores: Tensor) -> Tensor:
        """One step of the tracked quantiles towards those of `scores`; none where there are no scores."""
        if scores.numel() == 0:
            return quantiles
        levels = torch.tensor(self.levels, dtype=scores.dtype)
        if bool(quantiles.isnan().any()):
            return torch.quantile(scores, levels)
        below = (scores[None, :] < quantiles[:, None]).to(scores.dtype).mean(1)
        return quantiles + self.lr * (levels - below)

    def observe(self, state: State, batch: Batch) -> State:
        score, taken = scores(batch, papers(batch))
        return {"quantiles": self.track(state["quantiles"], score[taken].double().cpu())}
