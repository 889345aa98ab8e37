"""Clipping bias under spurious rewards: a control experiment."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.clip_bias import ClipBias
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import RandomReward
from podium.strategies import Sample

__all__ = ["clip_bias_spurious"]


@recipe(
    summary="Control experiment with spurious (random) rewards: measures the bias and entropy effect of clipping.",
    citation="Exploration v.s. Exploitation: Rethinking RLVR through Clipping, Entropy, and Spurious Reward, 2025",
    tags=("spurious rewards", "clipping", "entropy"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        lr=5e-7,
        tasks=128,
        max_tokens=4096,
        max_turns=1,
        source="the paper, by a public note: zhaoyang97/Paper-Notes-en, ICLR 2026",
    ),
    home=Home("sums", level=2),
    presets={"unclipped": {"clip": 0.99}},
)
def clip_bias_spurious(probability: float = 0.5, n: int = 16, clip: float = 0.2, mini_batches: int = 4) -> Method:
    """r ~ Bernoulli(probability) whatever the answer; GRPO's advantage with the population std; PPO's clip; no KL
    penalty. Each update reports the share of tokens clipped from above and below, and the bias that this gives the
    surrogate.

    What is learned here is not learned from rewards. A wide clip has no bias: with clip = 0.99 it is hardly ever
    reached (`@unclipped`). The authors' optimiser steps per batch are not known: 4 are ours.

    Args:
        probability: Probability of reward 1.
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        reward=(RandomReward(probability),),
        advantage=Normalize(unbiased=False),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ClipBias(clip, clip),),
    )
