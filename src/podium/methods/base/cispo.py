"""CISPO (MiniMax-M1): clip the importance weight instead of the update."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["cispo"]


@recipe(
    summary="Clips and detaches the importance weight instead of the update, so every token keeps its gradient.",
    citation="MiniMax 2025, MiniMax-M1, https://arxiv.org/abs/2506.13585",
    tags=("importance sampling", "clipping", "off-policy", "token-level"),
    protocol=Protocol(
        model="MiniMax-M1 456B",
        betas=(0.9, 0.95),
        max_tokens=80000,
        max_turns=1,
        source="MiniMax-M1, sections 3 and 4. Learning rate, batch and the upper bound of the weight are not given",
    ),
    home=Home(level=2),
    presets={
        "paper": {},
        "verl": {"n": 5, "clip_low": 10.0, "clip_high": 0.2, "kl": 0.001, "mini_batches": 2},
        "trl": {"mini_batches": 1},
        "skyrl": {"n": 5, "kl": 0.001, "mini_batches": 4},
    },
)
def cispo(n: int = 8, clip_low: float = 1.0, clip_high: float = 4.0, kl: float = 0.0, mini_batches: int = 16) -> Method:
    """w = clip(ratio, 1 − clip_low, 1 + clip_high), detached; loss = −w · A · log π, averaged over all tokens; GRPO's
    advantage, no KL penalty; 16 updates per batch.

    On-policy it is REINFORCE with GRPO's advantage. The paper tunes the upper bound without printing it and sets no
    lower one, which is clip_low = 1. The weights from 0 to 5 of plain `cispo` are those that ScaleRL, SkyRL and slime
    give (August 2026). TRL (1.9) names the largest weight itself: its `epsilon_high=5` is `clip_high=4` here
    (`Clip.capped(5)`). verl's example (0.9) clips at 1.2.

    Args:
        n: Rollouts per task (the group size).
        clip_low: The weight is at least 1 − clip_low; 1 or more: no lower bound.
        clip_high: The weight is at most 1 + clip_high.
        kl: Coefficient of a KL penalty (k3) to the reference, which the presets of two libraries have; 0: none.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, kind="weight")),),
        updates=Updates(mini_batches=mini_batches),
    )
    return anchored(method, KL("k3", coefficient=kl))
