"""Clip_B and Clip_V: clipping by a first-order entropy discriminator."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import DropDisruptive
from podium.strategies import Sample

__all__ = ["entropy_discriminator_clip"]


@recipe(
    summary="Masks negative-advantage tokens whose update would change the entropy abnormally (first-order).",
    citation="On the Entropy Dynamics in Reinforcement Fine-Tuning of LLMs, https://github.com/agentscope-ai/Trinity-RFT",
    tags=("entropy", "entropy collapse", "token-level", "negative samples", "clipping"),
    presets={"clip-b": {}, "clip-v": {"norm": "vocabulary", "mu": 8.5}},
)
def entropy_discriminator_clip(
    n: int = 8, norm: str = "batch", mu: float = 2.5, at_most: float = 1e-4, clip: float = 0.2
) -> Method:
    """S = p (log p + H): one step on a token with advantage A changes the entropy by −η A (S − E_S) to first order.
    Clip_B drops tokens with A < 0 and S more than mu standard deviations below the batch's mean; `@clip-v` those with A
    ≤ 0 and E_S − S above mu of its standard deviations, at most the share `at_most`. Dropped tokens leave the
    denominator.

    With a large mu it is GRPO without KL penalty. One update per batch: all quantities are those of the policy that is
    updated.

    Args:
        n: Rollouts per task (the group size).
        norm: What S is compared with: the `batch` (Clip_B) or its expectation over the `vocabulary` (Clip_V).
        mu: Threshold in standard deviations.
        at_most: Largest share of the tokens that Clip_V drops.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(DropDisruptive(mu, norm, at_most),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        metric=(ReportMean("token.keep.disruptive"),),
    )
