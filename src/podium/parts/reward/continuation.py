"""Rewards by the text itself: how near a continuation comes to the one that is there."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Columns, Need, Reward
from podium.core.signal import Signal

__all__ = ["ContinuationReward"]

SIMILARITY = Signal("similarity", of="old", level="rollout", passage="truth")


class ContinuationReward(Reward):
    """cosine: mean cosine of hidden states; binary: share of the true tokens that are hit; hybrid: the sum of both.

    A continuation that ends early misses what is left.
    """

    reference = "ReFINE, https://github.com/princetonvisualai/ReFINE"
    kind: str = "cosine"

    provides = ("rollout.reward", "rollout.reward.continuation")

    def __post_init__(self) -> None:
        one_of(self, "kind", ("cosine", "binary", "hybrid"))

    @property
    def needs(self) -> tuple[Need, ...]:
        similar = () if self.kind == "binary" else (SIMILARITY,)
        return (*similar, *(() if self.kind == "cosine" else ("token.id", "token.truth", "rollout.truth.length")))

    def hits(self, batch: Batch) -> Tensor:
        """[rollout] the share of the true tokens that stand at their places."""
        equal = (batch["token.id"].to(batch.dtype) == batch["token.truth"]).to(batch.dtype)
        return batch.reduce(equal, "token", "rollout", "sum") / batch["rollout.truth.length"].clamp(min=1)

    def __call__(self, batch: Batch) -> Columns:
        reward = torch.zeros(len(batch), dtype=batch.dtype, device=batch.device)
        if self.kind != "binary":
            reward = reward + batch[SIMILARITY]
        if self.kind != "cosine":
            reward = reward + self.hits(batch)
        return {"rollout.reward": reward, "rollout.reward.continuation": reward}
