"""Right answers that rest on useful searches."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["UsefulSearches"]


class UsefulSearches(Reward):
    """Multiplies the outcome by the use of the searches: R = r · (1 + weight · p), p the mean of `turn.useful` over the
    M searches of the rollout.

    A search that leaves the world's state as it was repeats what is known, and counts as useless. M = 0 is p = 0. A
    wrong answer, r = 0, earns nothing however well it searched. weight = 0 is the outcome alone.
    """

    reference = "Search-R2: Enhancing Search-Integrated Reasoning via Actor-Refiner Collaboration"
    weight: Number = 1.0  # of p, ≥ 0

    needs = ("rollout.reward", "turn.searched", "turn.useful", "turn.state", "turn.next_state")
    provides = ("rollout.reward", "rollout.search_use")

    def __post_init__(self) -> None:
        within(self, "weight", 0)

    @property
    def neutral(self) -> UsefulSearches:
        return self.replace(weight=0.0)

    def search_use(self, batch: Batch) -> Tensor:
        """[rollout] p"""
        states = zip(batch["turn.state"], batch["turn.next_state"], strict=True)
        new = torch.tensor([before != after for before, after in states], dtype=batch.dtype, device=batch.device)
        searched = batch["turn.searched"].to(batch.dtype)
        turns = batch.partition("turn", "rollout").agg
        useful = turns.sum(searched * new * batch["turn.useful"].to(batch.dtype))
        return useful / turns.sum(searched).clamp(min=1)

    def __call__(self, batch: Batch) -> Columns:
        use = self.search_use(batch)
        return {"rollout.reward": batch["rollout.reward"] * (1 + self.weight * use), "rollout.search_use": use}
