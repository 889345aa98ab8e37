"""STEER: stabilising token-level entropy change via reweighting."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Method
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
) -> Method:
    """w_t falls from `high` to `low` as |A/q · p(1 − p)(log p + H)| rises from its smallest to its largest value over
    the update; it multiplies a dual-clip loss with GRPO's advantage, token mean, no KL penalty.

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
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(SpareEntropy(low, high, mapping),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=16),
        metric=(ReportMean("token.weight.entropy"),),
    )
