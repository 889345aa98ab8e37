"""ScaleRL: the recipe of a study of how reinforcement learning scales with compute."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.memories import PassRates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import SignedReward
from podium.parts.select import NotMastered
from podium.strategies import Sample

__all__ = ["scalerl"]


@recipe(
    summary="CISPO averaged per task, advantages scaled over the batch, no groups without variance, no mastered tasks.",
    citation="Khatri et al. 2025, The Art of Scaling Reinforcement Learning Compute for LLMs, "
    "https://arxiv.org/abs/2510.13786",
    extends="cispo",
    tags=("importance sampling", "clipping", "off-policy", "zero-variance groups", "curriculum", "scaling"),
    protocol=Protocol(
        model="Llama 8B",
        tasks=48,
        max_tokens=14336,
        max_turns=1,
        pool=53000,
        source="The Art of Scaling RL Compute, section 2: up to 12,288 tokens of thinking and 2,048 of the answer",
    ),
    home=Home(level=2),
    presets={"paper": {}},
)
def scalerl(
    n: int = 16,
    clip_low: float = 1.0,
    clip_high: float = 4.0,
    mastered: float | None = 0.9,
    mini_batches: int = 8,
) -> Method:
    """Rewards of 1 and −1; A_i = (r_i − mean of the group) / (std over the batch + 1e-6); −sg[clip(ratio, 0, 5)] · A ·
    log π, the mean over the tokens of a task, then over tasks; groups whose rewards are all equal are left out without
    a replacement; a task whose pass rate reaches 0.9 is not drawn again. No KL penalty.

    The study's sampler runs up to 8 updates behind its trainer (PipelineRL-8), for which 8 mini-batches stand here: the
    last one is trained 7 updates after its rollouts were sampled. It computes logits in float32, as Podium always does.
    It also cuts off long thinking by writing the end of it, which has no counterpart: use the run's `max_tokens`. The
    bounds of the weight are those that TRL and SkyRL give for it; the study finds them to matter little.

    Args:
        n: Rollouts per task (the group size).
        clip_low: The weight is at least 1 − clip_low; 1: no lower bound.
        clip_high: The weight is at most 1 + clip_high.
        mastered: Pass rate from which a task is not drawn again; None: every task may come back.
        mini_batches: Optimiser steps per batch.
    """
    clip = Clip(clip_low, clip_high, kind="weight")
    method = Method(
        rollout=Sample(n=n),
        reward=(SignedReward(),),
        keep=(KeepMixed(top_up=False),),
        advantage=Normalize(scope=()),
        objective=(PolicyGradient(clip=clip, aggregate=Aggregate("token mean, group mean")),),
        updates=Updates(mini_batches=mini_batches),
    )
    return method if mastered is None else method | NotMastered(mastered) | PassRates()
