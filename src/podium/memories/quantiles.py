"""Online quantiles of the scores of papers, for risk-sensitive advantages."""

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
    """Online quantile estimates by stochastic approximation: q ← q + lr · (level − share of scores strictly below q).

    They start from the quantiles of the first batch. lr = 0 keeps those.
    """

    reference = REFERENCE
    levels: tuple[float, ...] = tuple(round(0.05 * k, 2) for k in range(1, 20))  # in (0, 1)
    lr: float = 0.1  # step size, ≥ 0

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
        """The quantiles after one step towards those of `scores`; unchanged without scores."""
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
