"""NGRPO: negative-enhanced group relative policy optimisation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import DropSolved
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.strategies import Sample

__all__ = ["ngrpo"]


@recipe(
    summary="Adds a virtual success to each group's statistics, so that all-wrong groups still give a signal.",
    citation="NGRPO: Negative-enhanced Group Relative Policy Optimization, https://github.com/nangongrui-ngr/NGRPO",
    tags=("zero-variance groups", "negative samples", "clipping", "exploration"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        tasks=1024,
        iterations=140,
        max_tokens=3072,
        source="nangongrui-ngr/NGRPO train_scripts/train_qwen2.5-math-7b_ngrpo.sh",
    ),
    home=Home("sums", level=2),
)
def ngrpo(
    n: int = 8,
    virtual: int = 1,
    max_reward: float = 1.0,
    clip_low: float = 0.16,
    clip_high: float = 0.24,
    max_rounds: int = 10,
    entropy: float = 0.001,
    mini_batches: int = 4,
) -> Method:
    """GRPO's advantage with mean and std over the group and `virtual` rollouts of the highest reward; groups in which
    every rollout has that reward are dropped and resampled, and surplus groups train in the next batch; clip 0.16/0.24,
    token mean, an entropy bonus, no KL penalty.

    A group of n failures gets −1/√(n + 1) each. virtual = 0 is GRPO's advantage. The entropy bonus
    is the default of the release's trainer, which its script leaves on.

    Args:
        n: Rollouts per task (the group size).
        virtual: Virtual successes that join each group's statistics.
        max_reward: The highest reward, which the virtual rollouts have.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        entropy: Coefficient of the entropy bonus; 0: none.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        keep=(DropSolved(highest=max_reward, max_rounds=max_rounds),),
        advantage=Normalize(virtual=virtual, virtual_value=max_reward),
        objective=(
            PolicyGradient(clip=Clip(clip_low, clip_high)),
            *((Entropy(coefficient=entropy),) if entropy else ()),
        ),
        updates=Updates(mini_batches=mini_batches),
    )
