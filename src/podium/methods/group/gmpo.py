"""GMPO: geometric-mean policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["gmpo"]


@recipe(
    summary="Maximises the geometric mean of clipped token ratios, which outlying tokens hardly move.",
    citation="Zhao et al. 2025, Geometric-Mean Policy Optimization, https://arxiv.org/abs/2507.20673",
    tags=("importance sampling", "clipping", "sequence-level", "group-relative", "trust region"),
    protocol=Protocol(
        model="Qwen/Qwen2.5-Math-7B",
        lr=1e-6,
        schedule="constant",
        tasks=128,
        max_tokens=3000,
        max_turns=1,
        pool=8000,
        source="callsys/GMPO, scripts/qwen2.5-math-7b-gmpo.sh: 1024 rollouts per batch, 128 per step",
    ),
    home=Home(level=2),
    presets={"paper": {}, "trl": {"mini_batches": 1}},
)
def gmpo(n: int = 8, clip_low: float = 0.4, clip_high: float = 0.4, mini_batches: int = 8) -> Method:
    """−A_i · exp(mean over tokens of c_t), with c_t = log π − log π_old clipped to at most 0.4 where A > 0 and to at
    least −0.4 where A < 0; mean over rollouts; GRPO's advantage, no KL penalty; 8 updates per batch.

    Ratios of tokens are clipped to [e^−0.4, e^0.4], wider than in GRPO, before the mean: a token that has gone far
    loses its gradient, the others of its answer keep theirs. Without the clip it is GSPO without its clip. verl (0.9)
    calls it `geo_mean`.

    Args:
        n: Rollouts per task (the group size).
        clip_low: A token's log-ratio is at least −clip_low where the advantage is negative.
        clip_high: A token's log-ratio is at most clip_high where the advantage is positive.
        mini_batches: Optimiser steps per batch.
    """
    surrogate = PolicyGradient(
        ratio="sequence",
        clip=Clip(clip_low, clip_high, kind="log"),
        shared=True,
        aggregate=Aggregate("token mean, rollout mean"),
    )
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(surrogate,),
        updates=Updates(mini_batches=mini_batches),
    )
