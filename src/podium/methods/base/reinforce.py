"""REINFORCE: the score-function policy gradient."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.strategies import Sample

__all__ = ["reinforce"]


@recipe(
    summary="Vanilla policy gradient: raise the log-probability of sampled tokens in proportion to the reward.",
    citation="Williams 1992, Simple statistical gradient-following algorithms",
    tags=("policy gradient", "on-policy"),
    protocol=Protocol(
        model="Pythia-6.9B after SFT",
        lr=1e-6,
        warmup=0.03,
        schedule="constant",
        tasks=512,
        iterations=600,
        max_turns=1,
        source="The vanilla policy gradient of the study of RLOO (arXiv 2402.14740, appendix): no authors' run exists",
    ),
    home=Home(level=2, tasks=64),
)
def reinforce(n: int = 1, aggregate: str = "token sum, rollout mean", mini_batches: int = 2) -> Method:
    """loss = −A · log π · w, with w = 1 or a detached importance weight (a `weight` column); A is the reward.

    On-policy its gradient is PPO's. With `advantage=Normalize()` it is on-policy GRPO without clip and KL penalty.
    The 2 updates per batch are those of the vanilla policy gradient in the study of RLOO; the second one is slightly
    off-policy.

    Args:
        n: Rollouts per task.
        aggregate: How the losses of tokens become one number, as the path of an `Aggregate`.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(centre="none", scale="none"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate(aggregate)),),
        updates=Updates(mini_batches=mini_batches),
    )
