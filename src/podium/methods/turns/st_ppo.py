"""ST-PPO: stabilised off-policy PPO for multi-turn agents."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import GAE
from podium.parts.objective import KL, Clip, PolicyGradient, ValueLoss
from podium.parts.objective.clip import Bounds
from podium.parts.reward import TokenReward
from podium.parts.shape import DampClipped
from podium.strategies import Sample

__all__ = ["st_ppo"]


@recipe(
    summary="Stabilised off-policy PPO: turn-level importance ratio, steps damped by how much clipping removes.",
    citation="ST-PPO: Stabilized Off-Policy Proximal Policy Optimization for Multi-Turn Agents Training",
    extends="ppo",
    tags=("off-policy", "importance sampling", "turn-level", "clipping", "critic", "stability"),
    presets={"turn-ppo": {"floor": None}, "s-ppo": {"ratio": "token"}, "literal": {"floor": 1e-8}},
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def st_ppo(
    n: int = 4,
    ratio: str = "turn",
    floor: float | None = 0.01,
    gamma: float = 1.0,
    lam: float = 1.0,
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 8,
) -> Method:
    """−min(w·A_t, clip(w, 1 ± 0.2)·A_t) / max(c, floor), with w the geometric mean of the ratios of a turn's tokens, A
    from GAE, and c the norm of what clipping removes: c² = Σ over clipped tokens of (w·A_t/(|y|·B))².

    `st-ppo@turn-ppo` has no division, `st-ppo@s-ppo` token-level ratios; both together are PPO. On the first of several
    updates nothing is clipped. The paper divides by the norm of the clipped part of the gradient; c approximates it
    without a second backward pass. c is a mean over tokens and stays far below 1, so that a floor of 1 would divide by
    nothing: the floor is 0.01 here, and `st-ppo@literal` has none; clipping the norm of the gradient then limits the
    step. gamma, lam and the mini-batches are assumptions.

    Args:
        n: Rollouts per task (the group size).
        ratio: Level of the importance ratio: `turn`, `token` or `sequence`.
        floor: Least divisor of the loss; None: no division.
        gamma: Discount factor per token.
        lam: GAE's λ.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference.
        mini_batches: Optimiser steps per batch.
    """
    sequence = Aggregate("token mean, rollout mean")
    surrogate = PolicyGradient(ratio, Clip(clip, clip), shared=ratio != "token", aggregate=sequence)
    return Method(
        rollout=Sample(n=n),
        reward=(TokenReward(),),
        advantage=GAE(gamma=gamma, lam=lam),
        shape=() if floor is None else (DampClipped(ratio, Bounds(clip, clip), floor),),
        objective=(surrogate, KL("k3", coefficient=kl), ValueLoss()),
        updates=Updates(mini_batches=mini_batches, unit="rollout"),
        roles=(Role("critic"), Role("ref")),
    )
