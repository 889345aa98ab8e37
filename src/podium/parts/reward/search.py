"""Rewards of the nodes of a search tree, from the values that the search has backed up."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["SearchScore"]


class SearchScore(Reward):
    """Writes `node.reward`: the soft-clipped search value of each node, and the plain verdict of the last one.

        r = scale · tanh(W / scale) + the overlong penalty,  W = `node.worth`

    A large scale leaves W as it is.
    """

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    scale: Number = 1.0  # bound of |W| after the soft clip, > 0

    needs = ("node.worth", "rollout.reward.overlong")
    provides = ("node.reward",)

    def __post_init__(self) -> None:
        within(self, "scale", 0, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        value, scale = batch["node.worth"].to(batch.dtype), float(self.scale)
        last = batch.last("node", "rollout")
        clipped = torch.where(last, value, scale * torch.tanh(value / scale))
        return {"node.reward": clipped + batch.spread(batch["rollout.reward.overlong"], "rollout", "node")}
