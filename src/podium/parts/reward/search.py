"""What a search has found out about each chunk, as its score."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["SearchScore"]


class SearchScore(Reward):
    """scale · tanh(W / scale) for a chunk of the value W, the verdict for the last one, and the reward for length."""

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    scale: Number = 1.0

    needs = ("node.worth", "rollout.reward.overlong")
    provides = ("node.reward",)

    def __post_init__(self) -> None:
        within(self, "scale", 0, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        worth, scale = batch["node.worth"].to(batch.dtype), float(self.scale)
        last = batch.last("node", "rollout")
        squashed = torch.where(last, worth, scale * torch.tanh(worth / scale))
        return {"node.reward": squashed + batch.spread(batch["rollout.reward.overlong"], "rollout", "node")}
