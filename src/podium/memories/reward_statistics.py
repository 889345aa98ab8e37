"""Running mean and variance of the rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.parts.reward.running import REFERENCE, merged

__all__ = ["RewardStatistics"]


class RewardStatistics(Memory):
    """Running count, mean and variance of all rewards so far; each batch contributes its unbiased variance."""

    reference = REFERENCE
    count: float = 1e-4  # weight of the initial mean 0 and variance 1, in rollouts, > 0

    needs = ("rollout.reward",)
    provides = ("batch.reward.statistics",)

    def __post_init__(self) -> None:
        within(self, "count", 0, open_low=True)

    def initial(self) -> State:
        return {"statistics": (self.count, 0.0, 1.0)}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.reward.statistics": torch.tensor([state["statistics"]], dtype=torch.float64)}

    def observe(self, state: State, batch: Batch) -> State:
        before = torch.tensor([state["statistics"]], dtype=torch.float64, device=batch.device)
        return {"statistics": tuple(merged(batch, before)[0].tolist())}
