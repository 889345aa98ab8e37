"""Text embeddings from a model's final hidden states."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from podium.core.errors import PodiumError, nearest
from podium.policy.forward.pack import portions
from podium.policy.policy import Policy

__all__ = ["POOLS", "embed"]

POOLS = {"mean": lambda states: states.mean(0), "last": lambda states: states[-1]}


def embed(policy: Policy, texts: Sequence[str], pool: str = "mean") -> Tensor:
    """[text, D] unit vectors: the mean of the states of a text's tokens as a prompt, or the state of the last one.

    Models trained to embed usually want the last one. Of a text longer than the context only the end is read.
    """
    if pool not in POOLS:
        raise PodiumError(f"A text cannot be embedded by {pool!r}. {nearest(pool, POOLS)}")
    prompts = [policy.encode([{"role": "user", "content": text}])[-policy.context_length :] for text in texts]
    pooled = [POOLS[pool](states.float()) for part in portions(prompts) for states in policy.states(part)]
    return normalize(torch.stack(pooled), dim=-1)
