"""DPPO: divergence proximal policy optimisation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import DivergenceMask, PolicyGradient
from podium.strategies import Sample

__all__ = ["dppo"]


@recipe(
    summary="A trust region by divergence: tokens whose probability, not whose ratio, moved too far are left out.",
    citation="Qi et al. 2026, Rethinking the Trust Region in LLM Reinforcement Learning, "
    "https://arxiv.org/abs/2602.04879",
    tags=("trust region", "clipping", "importance sampling", "token-level", "group-relative"),
    home=Home(level=2),
    presets={"paper": {}, "kl": {"kind": "kl", "low": 0.05, "high": 0.05}, "verl": {"behaviour": "old"}},
)
def dppo(
    n: int = 8,
    kind: str = "tv",
    low: float = 0.2,
    high: float = 0.2,
    cap: float | None = 20.0,
    behaviour: str = "sampler",
    mini_batches: int = 4,
) -> Method:
    """−A · sg[min(r, 20)] · log π, and 0 for a token with A > 0 whose probability rose by more than 0.2, or with A < 0
    whose probability fell by more; averaged over all tokens; GRPO's advantage, no KL penalty.

    |p − p_old| is the total variation between the distributions (token, any other) of the two policies. A ratio says
    little of it: PPO's clip holds a rare token at r = 1.2 that hardly moved the distribution, and lets a likely one
    fall from 0.99 to 0.8. `dppo@kl` bounds KL(p_old ‖ p) of the same pairs by 0.05. p_old is the sampler's own
    probability; `dppo@verl` (0.9) takes the trainer's. The number of mini-batches is ours.

    Args:
        n: Rollouts per task (the group size).
        kind: The divergence: `tv` (total variation) or `kl`.
        low: The largest divergence of tokens that become less likely.
        high: The largest divergence of tokens that become more likely.
        cap: The largest importance weight; None: no bound.
        behaviour: The policy that probabilities are compared with: `sampler` or `old`.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=DivergenceMask(kind, low, high, cap), behaviour=behaviour),),
        updates=Updates(mini_batches=mini_batches),
    )
