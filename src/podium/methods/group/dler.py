"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import LengthLimit
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["dler"]


@recipe(
    summary="Nothing for an answer that is cut off at a short limit, and an optimisation that can bear it.",
    citation="DLER: Doing Length Penalty Right, https://github.com/NVlabs/DLER",
    presets={
        "difficulty-aware": {"limits": (4000, 2000), "thresholds": (0.5,)},
        "strong-model": {"limits": (6000,), "clip_high": 0.36},
    },
)
def dler(
    n: int = 16,
    limits: tuple[int, ...] = (4000,),
    thresholds: tuple[float, ...] = (),
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
    kl: float = 0.0005,
    max_rounds: int = 10,
) -> Method:
    """Rewards of answers that were cut off or exceed the limit are 0; groups whose rewards are all equal are replaced;
    A = r − group mean, whitened over the tokens of the batch; clip 0.2/0.28, dual clip 10, token mean, k3.

    `dler@difficulty-aware` limits easy tasks (pass rate ≥ 0.5) to 2000 tokens. Merging the result back into its base,
    `podium.policy.model.merge.merge_weights`, needs no training. Without limit and KL it is REINFORCE++-baseline under DAPO's
    clip and sampling.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(LengthLimit(limits, thresholds),),
        keep=(KeepMixed(max_rounds=max_rounds),),
        advantage=Normalize(scale="none"),
        shape=(Whiten(),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
    )
    return anchored(method, KL("k3", coefficient=kl))
