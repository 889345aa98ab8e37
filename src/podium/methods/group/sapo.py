"""SAPO: soft adaptive policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient, SoftGate
from podium.strategies import Sample

__all__ = ["sapo"]


@recipe(
    summary="A smooth gate in place of the clip: the gradient of a token fades as its ratio leaves 1.",
    citation="Gao et al. 2025, Soft Adaptive Policy Optimization, https://arxiv.org/abs/2511.20347",
    tags=("importance sampling", "clipping", "trust region", "token-level", "group-relative"),
    protocol=Protocol(
        model="Qwen3-30B-A3B-Base after a cold start",
        max_turns=1,
        source="SAPO gives the temperatures. The four mini-batches are those of GSPO, by the same group",
    ),
    home=Home(level=2),
    presets={"paper": {}},
)
def sapo(n: int = 8, positive: float = 1.0, negative: float = 1.05, mini_batches: int = 4) -> Method:
    """−A · (4 / τ) · σ(τ (r − 1)) with r the token's importance ratio and τ = 1 where A > 0, 1.05 elsewhere; mean over
    the tokens of a rollout, then over rollouts; GRPO's advantage, no KL penalty; 4 mini-batches, without which every r
    is 1.

    A token keeps the share 4 σ (1 − σ) of GRPO's gradient: all of it at r = 1, 0.79 at r = 2, 0.42 at r = 3. Tokens
    with negative advantages fade sooner. As τ → 0 it is GRPO without a clip. verl (0.9) and TRL (1.9) have the same
    numbers.

    Args:
        n: Rollouts per task (the group size).
        positive: τ of tokens with a positive advantage; larger: the gradient fades sooner.
        negative: τ of all other tokens.
        mini_batches: Optimiser steps per batch.
    """
    gate, aggregate = SoftGate(positive, negative), Aggregate("token mean, rollout mean")
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=gate, aggregate=aggregate),),
        updates=Updates(mini_batches=mini_batches),
    )
