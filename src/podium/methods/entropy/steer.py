"""STEER: stabilising token-level entropy change via reweighting."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import SpareEntropy
from podium.strategies import Sample

__all__ = ["steer"]


@recipe(
    summary="Down-weights tokens whose update would change the entropy most, in either direction.",
    citation="STEER: Rethinking Entropy Interventions in RLVR, https://github.com/zz-haooo/STEER",
    tags=("entropy", "entropy collapse", "token-level", "exploration"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        tasks=512,
        max_tokens=3072,
        max_turns=1,
        source="zz-haooo/STEER: run/run_linear.sh",
    ),
    home=Home("sums", level=2),
    presets={"exponential": {"mapping": "exponential"}, "extreme": {"clip_low": 0.99, "clip_high": 5.0}},
)
def steer(
    n: int = 8,
    low: float = 0.8,
    high: float = 1.2,
    mapping: str = "linear",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
    mini_batches: int = 16,
) -> Method:
    """w_t falls from `high` to `low` as |A/q · p(1 − p)(log p + H)| rises from its smallest to its largest value over
    the update; it multiplies a dual-clip loss with GRPO's advantage, token mean, no KL penalty; 16 updates per batch.

    low = high = 1 is dual-clip PPO with GRPO's advantage. The release takes the extremes over each micro-batch, so that
    its results depend on the micro-batch size; here they are the update's.

    Args:
        n: Rollouts per task (the group size).
        low: Weight of the token with the largest predicted entropy change.
        high: Weight of the token with the smallest.
        mapping: How the weight falls: `linear` or `exponential`.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(SpareEntropy(low, high, mapping),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("token.weight.entropy"),),
    )
