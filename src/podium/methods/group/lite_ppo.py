"""Lite PPO: two tricks that suffice for critic-free PPO."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Draw, Sample

__all__ = ["lite_ppo"]


@recipe(
    summary="Minimal critic-free PPO: group-mean baseline, batch-level std, token-level loss.",
    citation="Liu et al. 2025, Tricks or Traps? A Deep Dive into RL for LLM Reasoning, https://arxiv.org/abs/2508.08221",
    tags=("advantage estimation", "token-level", "baseline", "clipping"),
)
def lite_ppo(n: int = 8, clip: float = 0.2, temperature: float = 0.99, top_p: float = 0.99) -> Method:
    """A_i = (r_i − group mean) / (std of all rewards of the batch + 1e-6); clip 0.2, token mean, no KL penalty.

    With one group in the batch it is GRPO's advantage. The study varies the scope of the mean (`advantage.key`) and of
    the std (`advantage.scope`).

    Args:
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        temperature: Sampling temperature.
        top_p: Nucleus sampling: the probability mass that is sampled from.
    """
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature, top_p=top_p)),
        advantage=Normalize(scope=(), singleton="zero"),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )
