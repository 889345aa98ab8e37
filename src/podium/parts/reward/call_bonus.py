"""A bonus for calling tools, whatever comes of it."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["CallBonus"]


class CallBonus(Reward):
    """r + weight · min(each · turns with a tool call, most), for right and wrong answers alike."""

    reference = "SPEAR, https://github.com/TencentYoutuResearch/SPEAR"
    weight: Number = 1.0  # a schedule lets it fade
    each: float = 0.1
    most: float = 1.0
    calls: str = "turn.calls"  # a column of turns: calls, or whether there was one

    provides = ("rollout.reward", "rollout.reward.calls", "rollout.called")

    def __post_init__(self) -> None:
        within(self, "each", 0)
        within(self, "most", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.calls)

    def bonus(self, turns: Tensor) -> Tensor:
        """Of so many turns with a call."""
        return self.weight * (self.each * turns).clamp(max=self.most)

    def __call__(self, batch: Batch) -> Columns:
        called = torch.tensor([bool(calls) for calls in batch[self.calls]], device=batch.device).to(batch.dtype)
        turns = batch.partition("turn", "rollout").agg.sum(called)
        bonus = self.bonus(turns)
        return {
            "rollout.reward": batch["rollout.reward"] + bonus,
            "rollout.reward.calls": bonus,
            "rollout.called": turns > 0,
        }
