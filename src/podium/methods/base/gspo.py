"""GSPO: group sequence policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["gspo"]


@recipe(
    summary="One importance ratio and clip per sequence: the geometric mean of the token ratios.",
    citation="Zheng et al. 2025, Group Sequence Policy Optimization, https://arxiv.org/abs/2507.18071",
    tags=("importance sampling", "sequence-level", "clipping", "group-relative"),
    protocol=Protocol(
        model="Qwen3-30B-A3B-Base after a cold start",
        max_turns=1,
        source="GSPO, section 5.1: four mini-batches and the clips. Learning rate, batch and lengths are not given",
    ),
    home=Home(level=2),
    presets={"paper": {}, "token": {"per_token": True}, "verl": {"per_token": True, "n": 16}},
)
def gspo(
    n: int = 8, clip_low: float = 3e-4, clip_high: float = 4e-4, per_token: bool = False, mini_batches: int = 4
) -> Method:
    """s_i = exp(mean over tokens of log π − log π_old); −min(s_i A_i, clip(s_i, 1 − 3e-4, 1 + 4e-4) A_i), mean over
    rollouts; GRPO's advantage, no KL penalty; 4 mini-batches, without which every s_i is 1.

    An answer is clipped as a whole. Where all token log-ratios are equal, it is GRPO's token ratio. In `gspo@token`
    (GSPO-token) the ratio of token t is s_i · π_t / sg[π_t]: the same value, but its gradient reaches that token alone,
    so that tokens of an answer may have advantages of their own; with one advantage per answer the gradients agree.
    verl computes that form throughout: `gspo@verl` is its example for GSM8K (0.9).

    Args:
        n: Rollouts per task (the group size).
        clip_low: Lower clip of the sequence ratio, 1 − clip_low.
        clip_high: Upper clip of the sequence ratio, 1 + clip_high.
        per_token: Let the loss of a token have a gradient in that token alone (GSPO-token).
        mini_batches: Optimiser steps per batch.
    """
    surrogate = PolicyGradient(
        ratio="sequence",
        clip=Clip(clip_low, clip_high),
        shared=not per_token,
        aggregate=Aggregate("token mean, rollout mean"),
    )
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(surrogate,),
        updates=Updates(mini_batches=mini_batches),
    )
