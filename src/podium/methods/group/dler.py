"""DLER: doing the length penalty right, by truncation and batch-wise normalisation."""

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
    summary="Hard truncation as length penalty, made stable by batch-wise normalisation, clip-higher and filtering.",
    citation="DLER: Doing Length Penalty Right, https://github.com/NVlabs/DLER",
    tags=("length penalty", "overthinking", "short reasoning", "dynamic sampling", "efficiency"),
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
    """Rewards of answers that were truncated or exceed the limit are 0; groups whose rewards are all equal are
    replaced; A = r − group mean, whitened over the tokens of the batch; clip 0.2/0.28, dual clip 10, token mean, k3.

    Without limit and KL penalty it is REINFORCE++-baseline under DAPO's clip and sampling. `dler@difficulty-aware`
    limits easy tasks (pass rate ≥ 0.5) to 2000 tokens. Merging the result back into its base model needs no training:
    `podium.policy.model.merge.merge_weights`.

    Args:
        n: Rollouts per task (the group size).
        limits: Longest rewarded answer in tokens; one more than thresholds, from the hardest tasks to the easiest.
        thresholds: Pass rates of the group at which the next limit begins, increasing.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
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
