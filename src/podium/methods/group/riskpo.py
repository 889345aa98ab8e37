"""TODO"""

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
    summary="A mixed value-at-risk of bundled questions: learn from the lower tail and the middle of the scores.",
    citation="RiskPO, https://github.com/RTkenny/RiskPO",
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
    """`bundle` questions of the batch make a bundle, drawn at random. Paper k of a bundle is the k-th rollout of each
    of its questions, its score S their summed reward; with tracked quantiles a and b,
    value = (w · −(a − S)⁺/low + ((S − a)⁺ − (S − b)⁺ + a − b)/(high − low)) / (w + 1), over the std of the bundle's
    scores, credited to the rollouts of the paper. PPO's clip, no KL.

    The quantiles are those of the iteration before, as published; the released trainer never feeds them back, which
    is `quantiles="batch"`. With bundles of one question, w = 0, low = 0, high = 1 and no natural baseline the value
    is S − min: GRPO's centred reward up to a constant.
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
