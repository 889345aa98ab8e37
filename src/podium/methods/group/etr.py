"""ETR: outcome-guided elastic trust regions."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import ElasticClip
from podium.strategies import Sample

__all__ = ["etr"]


@recipe(
    summary="Elastic clip range: wider for large advantages and for tasks of intermediate difficulty.",
    citation="ETR: Outcome-Guided Elastic Trust Regions for Policy Optimization",
    tags=("trust region", "clipping", "difficulty"),
    protocol=Protocol(
        model="Qwen3-8B-Base",
        source="arXiv 2601.03723, abstract",
    ),
    home=Home("sums", level=2),
)
def etr(
    n: int = 8,
    clip: float = 0.2,
    clip_high: float | None = None,
    micro: float = 0.5,
    macro: float = 0.5,
    mini_batches: int = 4,
) -> Method:
    """scale_i = clip(1 + micro · (tanh|A_i| − tanh 1) + macro · (4 p (1 − p) − ½), ½, 2), p the group's pass rate; GRPO
    with the clip bounds of rollout i times scale_i, detached.

    micro = macro = 0 is GRPO without KL penalty. The rule is our reconstruction from the paper's abstract: the range
    grows with the advantage and with the variance of the group's outcomes. A clip acts only where a batch is trained in
    several steps; how many the paper takes is not known.

    Args:
        n: Rollouts per task (the group size).
        clip: Clip range before scaling, [1 − clip, 1 + clip].
        clip_high: Upper clip before scaling; None: the same as `clip`.
        micro: How much the size of the rollout's advantage stretches the range.
        macro: How much the variance of the group's outcomes stretches the range.
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    stretch = ElasticClip(clip, clip if clip_high is None else clip_high, micro=micro, macro=macro)
    bounds = Clip("rollout.clip_low", "rollout.clip_high")
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(stretch,),
        objective=(PolicyGradient(clip=bounds, aggregate=Aggregate("token mean, rollout mean")),),
        updates=Updates(mini_batches=mini_batches),
    )
