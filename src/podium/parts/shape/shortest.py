"""Long right answers, held to the shortest one."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.branches import Forest
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number
from podium.parts.advantage.tree_differences import excess, shortest_right

__all__ = ["HoldToShortest"]


class HoldToShortest(Shape):
    """A ← A − |A| · (1 − ((L_s − k) / (L − k))^λ) after the k tokens that a right answer shares with the shortest one.

    Right is a reward that is not 0. Positive credit shrinks, negative grows; what both have written stays as it is.
    """

    reference = "ROSE, https://github.com/ZiqiZhao1/ROSE-rl"
    exponent: Number = 0.5  # λ; 0: length does not count

    needs = ("token.advantage", "rollout.reward", "node.key")
    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "exponent", 0)

    def __call__(self, batch: Batch) -> Columns:
        forest, short = Forest.of(batch), shortest_right(batch)
        owner = batch.link("node", "rollout")
        way = torch.zeros(len(forest), dtype=torch.bool, device=batch.device)
        way[forest.vertex[torch.isin(owner, short)]] = True  # where the shortest ones of the groups pass
        common = batch.spread(way[forest.vertex], "node", "token").to(batch.dtype)
        shared = batch.reduce(common, "token", "rollout", "sum")
        advantage = batch["token.advantage"]
        return {"token.advantage": advantage - advantage.abs() * excess(batch, short, shared, float(self.exponent))}
