"""MaxRL: maximum likelihood reinforcement learning."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.strategies import Sample

__all__ = ["maxrl"]


@recipe(
    summary="Divides by the group's mean reward: the gradient of log pass rate, which weighs hard tasks more.",
    citation="Tajwar et al. 2026, Maximum Likelihood Reinforcement Learning, https://arxiv.org/abs/2602.02710",
    tags=("group-relative", "difficulty", "advantage estimation", "pass@k"),
    protocol=Protocol(
        model="Qwen/Qwen3-1.7B-Base",
        lr=1e-6,
        clip=0.3,
        tasks=256,
        max_tokens=4096,
        max_turns=1,
        pool=53000,
        source="tajwarfahim/maxrl, qwen3_experiments/run_qwen3_training.sh",
    ),
    home=Home(level=2),
    presets={"paper": {"n": 16}, "skyrl": {"n": 5, "mini_batches": 4}},
)
def maxrl(n: int = 8, clip: float = 0.2, mini_batches: int = 1) -> Method:
    """A_i = (r_i − mean) / (mean + 1e-6) over the rollouts of a group, 0 where no rollout has a reward; PPO's clip; the
    mean over all tokens; no KL penalty.

    With rewards 0 and 1, a success in a group with the pass rate p gets 1/p − 1 and a failure −1. Over n rollouts that
    is an unbiased gradient of the first n − 1 terms of log p = −Σ_k (1 − p)^k / k: plain policy gradients maximise the
    first term alone, n → ∞ is maximum likelihood. Rewards must not be negative. The authors make one update per batch,
    at which the clip cannot act.

    Args:
        n: Rollouts per task (the group size), one more than the number of terms.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale="mean"),
        objective=(PolicyGradient(clip=clip_for(mini_batches, clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
    )
