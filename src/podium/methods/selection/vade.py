"""VADE: variance-aware dynamic sampling."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import BetaBeliefs
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.select import Thompson
from podium.strategies import Sample

__all__ = ["vade"]


@recipe(
    summary="Variance-aware sampling: Thompson draws from success-rate beliefs pick tasks of highest reward variance.",
    citation="VADE: Variance-Aware Dynamic Sampling via Online Sample-Level Difficulty Estimation",
    tags=("data selection", "curriculum", "difficulty", "uncertainty", "multimodal"),
    protocol=Protocol(source="not given: the authors' code has not been seen"),
    home=Home("sums", level=2),
    presets={"hard": {"failure": 2.0}},
)
def vade(
    n: int = 8,
    decay: float = 0.5,
    decay_rest: float = 0.99,
    failure: float = 1.0,
    uniform: float = 0.0,
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """Each task has a Beta(a, b) belief; θ is drawn from it and the tasks of the highest θ (1 − θ) are sampled. Then a
    ← 1 + 0.5 (a − 1) + successes where a task was sampled, a ← 1 + 0.99 (a − 1) elsewhere; b likewise with failures.
    The update is GRPO's, without KL penalty.

    With both decays 1 it is Thompson sampling for a policy that does not change. Score and decay are our reading of the
    abstract; the authors' code has not been seen. A table in another paper gives the score as θ (1 − θ)², which takes
    harder tasks: `vade@hard`. The 4 mini-batches are ours.

    Args:
        n: Rollouts per task (the group size).
        decay: Decay of the counts of tasks that were sampled.
        decay_rest: Decay of the counts of all others.
        failure: Exponent of 1 − θ in the score.
        uniform: Share of the tasks that are drawn at random; 1: all.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        select=Thompson(failure=failure, uniform=uniform),
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        memories=(BetaBeliefs(decay=decay, decay_rest=decay_rest),),
    )
