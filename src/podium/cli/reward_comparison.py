"""The advantages that methods compute from the same rewards."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.method import Method

__all__ = ["advantages", "one_group"]


def one_group(rewards: Sequence[float]) -> Batch:
    """One group of answers of one token each, with a reference equal to the policy."""
    zeros = torch.zeros(len(rewards), 1, dtype=torch.float64)
    columns = {
        "rollout.reward": torch.tensor(rewards, dtype=torch.float64),
        "token.old.logp": zeros,
        "token.ref.logp": zeros,
    }
    return Batch.from_padded(torch.ones(len(rewards), 1), [0] * len(rewards), columns)


def advantages(method: Method, batch: Batch) -> Tensor:
    """[token] what the stages before the loss compute from the rewards, with memories that are still empty."""
    if method.advantage is None:
        raise PodiumError("it has no advantage: its objective reads the rewards.")
    for memory in method.memories:
        batch = batch.with_columns(memory.recall(memory.initial(), batch["group.task"].tolist()))
    for part in (*method.reward, *method.keep, method.advantage, *(s for s in method.shape if not s.live)):
        batch = batch.with_columns(part(batch))
    advantage: Tensor = batch["token.advantage"]
    return advantage
