"""Texts as directions: what a model's final hidden states say a text is about."""

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
    """[text, D] of length 1: the mean of the states of a text's tokens as a prompt, or the state of the last one.

    Models that were trained to embed read the last one. Of a text longer than the context the end is read.
    """
    if pool not in POOLS:
        raise PodiumError(f"A text cannot be embedded by {pool!r}. {nearest(pool, POOLS)}")
    prompts = [policy.encode([{"role": "user", "content": text}])[-policy.context_length :] for text in texts]
    found = [POOLS[pool](states.float()) for part in portions(prompts) for states in policy.states(part)]
    return normalize(torch.stack(found), dim=-1)
