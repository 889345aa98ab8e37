"""Lp-Reg: low-probability regularisation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, PolicyGradient
from podium.parts.shape import BelowAnchor, SelectTokens
from podium.strategies import Sample

__all__ = ["lp_reg"]


@recipe(
    summary="Protects low-probability exploratory tokens (reasoning sparks) by a KL to a noise-filtered policy.",
    citation="Low-probability Tokens Sustain Exploration in RL with Verifiable Reward, https://github.com/CarlanLark/Lp-Reg-dev",
    tags=("exploration", "entropy collapse", "token-level", "kl penalty", "negative samples"),
    protocol=Protocol(
        model="Qwen3-14B-Base",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.0,
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=256,
        iterations=1000,
        max_tokens=8192,
        max_turns=1,
        source="CarlanLark/Lp-Reg-dev: recipe/lp_reg/Qwen3_14b_lp_reg_onpolicy_64gpu.sh",
    ),
    home=Home("sums", level=2),
    presets={"on-policy": {}, "off-policy": {"mini_batches": 8}, "32b": {"share": 0.005}},
)
def lp_reg(
    n: int = 8,
    share: float = 0.01,
    min_p: float = 0.02,
    beta: float = 1.0,
    clip_low: float = 1.0,
    clip_high: float = 9.0,
    dual: float = 10.0,
    mini_batches: int = 1,
) -> Method:
    """Of the tokens with A < 0 take the share with the smallest log π (if that is two or more), and of these the ones
    below log π̃, the old policy without the tokens below min_p times its likeliest: they get −A r + beta · k3(π̃ ‖ π)
    without clip; all others get PPO's clip, which only stops ratios above 10. GRPO's advantage, token mean.

    beta = 0 is the unclipped loss on those tokens. The authors' main run makes one update per batch, in which there is
    nothing to clip; that of `@off-policy` makes 8. The release selects within each micro-batch, this within the update.

    Args:
        n: Rollouts per task (the group size).
        share: Share of the negative-advantage tokens that may be protected, the least likely.
        min_p: Noise threshold: probability relative to the likeliest token.
        beta: Coefficient of the KL term on the protected tokens.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        mini_batches: Optimiser steps per batch.
    """
    starved = "token.starved"
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(
            SelectTokens("surprise", share, rule="floor", sign="negative", none_below=2),
            BelowAnchor("old", min_p, clip_low),
        ),
        objective=(
            PolicyGradient(clip=clip_for(mini_batches, "token.clip_low", clip_high, dual)),
            KL("k3", anchor="old", min_p=min_p, limit=10.0, where=starved, over="all", coefficient=beta),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean(starved),),
    )
