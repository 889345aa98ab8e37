"""Clip_B and Clip_V: clipping by a first-order entropy discriminator."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import PolicyGradient
from podium.parts.shape import DropDisruptive
from podium.strategies import Sample

__all__ = ["entropy_discriminator_clip"]


@recipe(
    summary="Masks negative-advantage tokens whose update would change the entropy abnormally (first-order).",
    citation="On the Entropy Dynamics in Reinforcement Fine-Tuning of LLMs, https://github.com/agentscope-ai/Trinity-RFT",
    tags=("entropy", "entropy collapse", "token-level", "negative samples", "clipping"),
    protocol=ADAMW.replace(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        tasks=64,
        max_tokens=7168,
        max_turns=1,
        source="agentscope-ai/Trinity-RFT: examples/entropy/clipb.yaml, trinity/common/config.py",
    ),
    home=Home("countdown"),
    presets={"clip-b": {}, "clip-v": {"n": 8, "norm": "vocabulary", "mu": 8.5}},
)
def entropy_discriminator_clip(
    n: int = 16,
    norm: str = "batch",
    mu: float = 2.5,
    at_most: float = 1e-4,
    clip: float = 0.2,
    dual: float = 3.0,
    mini_batches: int = 1,
) -> Method:
    """S = p (log p + H): one step on a token with advantage A changes the entropy by −η A (S − E_S) to first order.
    Clip_B drops tokens with A < 0 and S more than mu standard deviations below the batch's mean; `@clip-v` those with A
    ≤ 0 and E_S − S above mu of its standard deviations, at most the share `at_most`. Dropped tokens leave the
    denominator.

    With a large mu it is GRPO without KL penalty. The authors make one update per batch, so all quantities are those of
    the policy that is updated, and there is nothing to clip. S is at least about −0.22, reached by a token of
    probability 0.11 beside a single other one: where answers are so uncertain that S has a std of 0.1 or more, nothing
    lies 2.5 of them below the mean, and Clip_B drops nothing.

    Args:
        n: Rollouts per task (the group size).
        norm: What S is compared with: the `batch` (Clip_B) or its expectation over the `vocabulary` (Clip_V).
        mu: Threshold in standard deviations.
        at_most: Largest share of the tokens that Clip_V drops.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip], with several updates per batch.
        dual: Dual clip, likewise: where the advantage is negative, the loss is at most dual · |A|.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(DropDisruptive(mu, norm, at_most),),
        objective=(PolicyGradient(clip=clip_for(mini_batches, clip, clip, dual)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("token.keep.disruptive"),),
    )
