"""A length penalty: right answers are compared with the shortest right one of their group."""

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
    """Length penalty against the shortest right answer: A ← A − |A| · (1 − ((L_s − k) / (L − k))^λ).

    L is the length of a right answer, L_s that of the shortest one, and k the prefix that they share, whose tokens keep
    their advantage. An answer is right if its reward is not 0. Positive advantages shrink, and negative ones grow.
    """

    reference = "ROSE, https://github.com/ZiqiZhao1/ROSE-rl"
    exponent: Number = 0.5  # λ; 0: no length penalty

    needs = ("token.advantage", "rollout.reward", "node.key")
    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "exponent", 0)

    def __call__(self, batch: Batch) -> Columns:
        forest, short = Forest.of(batch), shortest_right(batch)
        owner = batch.link("node", "rollout")
        on_shortest = torch.zeros(len(forest), dtype=torch.bool, device=batch.device)  # [vertex]
        on_shortest[forest.vertex[torch.isin(owner, short)]] = True
        common = batch.spread(on_shortest[forest.vertex], "node", "token").to(batch.dtype)
        shared = batch.reduce(common, "token", "rollout", "sum")
        advantage = batch["token.advantage"]
        return {"token.advantage": advantage - advantage.abs() * excess(batch, short, shared, float(self.exponent))}
