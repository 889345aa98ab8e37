"""Self-supervised rewards for raw text: how close a sampled continuation comes to the true one."""

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
    """Rewards a sampled continuation by its similarity to the true text.

    `cosine`: the mean cosine similarity of the hidden states; `binary`: the share of true tokens that are reproduced at
    their positions; `hybrid`: their sum. A continuation that ends early misses the rest of the true tokens.
    """

    reference = "ReFINE, https://github.com/princetonvisualai/ReFINE"
    kind: str = "cosine"  # cosine, binary or hybrid

    provides = ("rollout.reward", "rollout.reward.continuation")

    def __post_init__(self) -> None:
        one_of(self, "kind", ("cosine", "binary", "hybrid"))

    @property
    def needs(self) -> tuple[Need, ...]:
        similar = () if self.kind == "binary" else (SIMILARITY,)
        return (*similar, *(() if self.kind == "cosine" else ("token.id", "token.truth", "rollout.truth.length")))

    def hits(self, batch: Batch) -> Tensor:
        """[rollout] The share of the true tokens that are reproduced at their positions."""
        equal = (batch["token.id"].to(batch.dtype) == batch["token.truth"]).to(batch.dtype)
        return batch.reduce(equal, "token", "rollout", "sum") / batch["rollout.truth.length"].clamp(min=1)

    def __call__(self, batch: Batch) -> Columns:
        reward = torch.zeros(len(batch), dtype=batch.dtype, device=batch.device)
        if self.kind != "binary":
            reward = reward + batch[SIMILARITY]
        if self.kind != "cosine":
            reward = reward + self.hits(batch)
        return {"rollout.reward": reward, "rollout.reward.continuation": reward}
