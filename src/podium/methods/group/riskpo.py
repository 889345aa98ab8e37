"""RiskPO: risk-based policy optimisation with a mixed value-at-risk."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import QuantileTracker
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import RiskBundles
from podium.parts.keep import Bundle
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["riskpo"]


DAPO_MATH = Protocol(
    model="DeepSeek-R1-Distill-Qwen-1.5B",
    lr=1e-6,
    betas=(0.9, 0.999),
    weight_decay=0.01,
    warmup=0,
    schedule="constant",
    clip=1.0,
    tasks=512,
    iterations=500,
    max_tokens=3072,
    source="RTkenny/RiskPO scripts/run_qwen2.5_1.5b_MVaR_dapomath.sh",
)
MATH = DAPO_MATH.replace(
    model="Qwen2.5-1.5B-Instruct",
    tasks=1024,
    iterations=200,
    max_tokens=1024,
    source="RTkenny/RiskPO scripts/run_qwen2.5_1.5b_MVaR_math.sh",
)


@recipe(
    summary="Risk-averse objective: mixed value-at-risk of bundled questions, stressing the lower tail of scores.",
    citation="RiskPO, https://github.com/RTkenny/RiskPO",
    tags=("risk", "difficulty", "exploration", "advantage estimation"),
    protocol=DAPO_MATH,
    home=Home("sums", level=1, tasks=32),
    presets={
        "math": {
            "n": 5,
            "high": 0.9,
            "credit": "std",
            "natural_baseline": True,
            "mini_batches": 2,
            "protocol": MATH,
        },
    },
)
def riskpo(
    n: int = 10,
    bundle: int = 5,
    low: float = 0.2,
    high: float = 0.8,
    weight: float = 1.5,
    quantiles: str = "track",
    credit: str = "sum-mean",
    natural_baseline: bool = False,
    lr: float = 0.1,
    clip: float = 0.2,
    dual: float = 3.0,
    mini_batches: int = 4,
) -> Method:
    """About `bundle` questions of the batch form a bundle, drawn at random. Paper k of a bundle consists of the k-th
    rollout of each of its questions, and its score S is their summed reward; with tracked quantiles a and b, value =
    (w · −(a − S)⁺/low + ((S − a)⁺ − (S − b)⁺)/(high − low)) / (w + 1), over the std of the bundle's scores, credited to
    the rollouts of the paper in proportion to their deviation from their question's mean. PPO's clip, token mean, no KL
    penalty.

    With bundles of one question, w = 0, low = 0, high = 1 and no natural baseline the value is S − min: GRPO's centred
    reward up to a constant. The quantiles are those of the previous iteration, as published; the released trainer never
    feeds them back, which is `quantiles="batch"`. The defaults are those of the script for DAPO-Math; the one for GSM8K
    and MATH (`riskpo@math`) divides by the std of the question's rewards instead, adds a natural baseline and has 5
    rollouts. Where the tasks do not divide into bundles, the scripts leave a smaller last bundle, whose scores are
    compared with quantiles of full ones; here the bundles differ by at most one question, and scores are scaled to
    their mean size.

    Args:
        n: Rollouts per task (the group size).
        bundle: Questions per bundle, up to rounding.
        low: Level of the lower quantile a.
        high: Level of the upper quantile b.
        weight: Weight w of the lower tail.
        quantiles: `track` them over training, take the `batch`'s own, or `mix` both.
        credit: How a value is shared among the rollouts: `uniform`, `std`, `score` or `sum-mean`.
        natural_baseline: Add a − b to the middle part, so that no value is positive.
        lr: Step size of the quantile tracker.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        mini_batches: Optimiser steps per batch.
    """
    risk = RiskBundles(
        low=low, high=high, quantiles=quantiles, tail_weight=weight, credit=credit, natural_baseline=natural_baseline
    )
    memories = () if quantiles == "batch" else (QuantileTracker(lr=lr),)
    return Method(
        rollout=Sample(n=n),
        keep=(Bundle(bundle),),
        advantage=risk,
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        memories=memories,
    )
