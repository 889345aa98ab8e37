"""Lite PPO: two tricks that suffice for critic-free PPO."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Draw, Sample

__all__ = ["lite_ppo"]


@recipe(
    summary="Minimal critic-free PPO: group-mean baseline, batch-level std, token-level loss.",
    citation="Liu et al. 2025, Tricks or Traps? A Deep Dive into RL for LLM Reasoning, https://arxiv.org/abs/2508.08221",
    tags=("advantage estimation", "token-level", "baseline", "clipping"),
    protocol=Protocol(
        model="Qwen3-8B-Base",
        lr=1e-6,
        warmup=50,
        tasks=128,
        max_tokens=8192,
        source="arXiv 2508.08221, appendix A.1; huggingface/trl docs/source/paper_index.md",
    ),
    home=Home("sums", level=2),
)
def lite_ppo(
    n: int = 8,
    clip: float = 0.2,
    temperature: float = 0.99,
    top_p: float = 0.99,
    top_k: int = 100,
    mini_batches: int = 4,
) -> Method:
    """A_i = (r_i − group mean) / (std of all rewards of the batch + 1e-6); clip 0.2, token mean, no KL penalty.

    With one group in the batch it is GRPO's advantage. The study varies the scope of the mean (`advantage.key`) and of
    the std (`advantage.scope`). It samples from the 100 likeliest tokens within 0.99 of the probability. How many
    optimiser steps it takes per batch is not printed.

    Args:
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        temperature: Sampling temperature.
        top_p: Nucleus sampling: the probability mass that is sampled from.
        top_k: How many of the likeliest tokens are sampled from; 0: all.
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature, top_p=top_p, top_k=top_k)),
        advantage=Normalize(scope=(), singleton="zero"),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
    )
