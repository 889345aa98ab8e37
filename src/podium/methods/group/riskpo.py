"""RiskPO: risk-based policy optimisation with a mixed value-at-risk."""

from __future__ import annotations

from podium.memories import QuantileTracker
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import RiskBundles
from podium.parts.keep import Bundle
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["riskpo"]


@recipe(
    summary="Risk-averse objective: mixed value-at-risk of bundled questions, stressing the lower tail of scores.",
    citation="RiskPO, https://github.com/RTkenny/RiskPO",
    tags=("risk", "difficulty", "exploration", "advantage estimation"),
    presets={
        "math": {"high": 0.9, "credit": "std", "natural_baseline": True},
        "dapo-math": {"high": 0.8, "credit": "sum-mean", "natural_baseline": False},
    },
)
def riskpo(
    n: int = 10,
    bundle: int = 5,
    low: float = 0.2,
    high: float = 0.8,
    weight: float = 1.5,
    quantiles: str = "track",
    credit: str = "std",
    natural_baseline: bool = True,
    lr: float = 0.1,
    clip: float = 0.2,
) -> Method:
    """`bundle` questions of the batch form a bundle, drawn at random. Paper k of a bundle consists of the k-th rollout
    of each of its questions, and its score S is their summed reward; with tracked quantiles a and b, value = (w · −(a −
    S)⁺/low + ((S − a)⁺ − (S − b)⁺ + a − b)/(high − low)) / (w + 1), over the std of the bundle's scores, credited to
    the rollouts of the paper. PPO's clip, no KL penalty.

    With bundles of one question, w = 0, low = 0, high = 1 and no natural baseline the value is S − min: GRPO's centred
    reward up to a constant. The quantiles are those of the previous iteration, as published; the released trainer never
    feeds them back, which is `quantiles="batch"`.

    Args:
        n: Rollouts per task (the group size).
        bundle: Questions per bundle.
        low: Level of the lower quantile a.
        high: Level of the upper quantile b.
        weight: Weight w of the lower tail.
        quantiles: `track` them over training, take the `batch`'s own, or `mix` both.
        credit: How a value is shared among the rollouts: `uniform`, `std`, `score` or `sum-mean`.
        natural_baseline: Add a − b to the middle part, so that no value is positive.
        lr: Step size of the quantile tracker.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    risk = RiskBundles(
        low=low, high=high, quantiles=quantiles, tail_weight=weight, credit=credit, natural_baseline=natural_baseline
    )
    memories = () if quantiles == "batch" else (QuantileTracker(lr=lr),)
    return Method(
        rollout=Sample(n=n),
        keep=(Bundle(bundle),),
        advantage=risk,
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=memories,
    )
