"""A bonus for calling tools, regardless of the outcome."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["CallBonus"]


class CallBonus(Reward):
    """Adds weight · min(each · turns with a tool call, most) to the reward, for right and wrong answers alike.

    weight = 0 leaves the reward as it is; a schedule usually anneals it to that.
    """

    reference = "SPEAR, https://github.com/TencentYoutuResearch/SPEAR"
    weight: Number = 1.0
    each: float = 0.1  # per turn with a call, ≥ 0
    most: float = 1.0  # cap of the bonus before the weight, ≥ 0
    calls: str = "turn.calls"  # a column of turns: the calls, or whether there was one

    provides = ("rollout.reward", "rollout.reward.calls", "rollout.called")

    def __post_init__(self) -> None:
        within(self, "each", 0)
        within(self, "most", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.calls)

    def bonus(self, turns: Tensor) -> Tensor:
        """The bonus for this number of turns with a call."""
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
