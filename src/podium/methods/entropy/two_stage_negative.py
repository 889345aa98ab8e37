"""GRPO-N and GSPO-N: training on negative advantages alone."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.parts.metric.entropies import EntropyProfile
from podium.parts.shape import KeepSign

__all__ = ["two_stage_negative"]


@recipe(
    summary="Negative-only training: penalises failures, leaves successes alone, and so preserves exploration.",
    citation="The Debate on RLVR Reasoning Capability Boundary: Shrinkage, Expansion, or Both?, 2025",
    tags=("negative samples", "exploration", "entropy collapse", "pass@k"),
    protocol=Protocol(model="Qwen2.5-Math-7B", iterations=50, max_turns=1, source="public reviews of arXiv 2510.04028"),
    home=Home("sums", level=2),
    presets={"grpo-n": {}, "gspo-n": {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4}},
)
def two_stage_negative(
    sign: str = "negative",
    ratio: str = "token",
    n: int = 8,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
    mini_batches: int = 4,
) -> Method:
    """GRPO's advantage where it is negative, else 0; every token stays in the denominator. `@gspo-n`: with
    sequence-level ratios.

    The filter's switch `shape.KeepSign.on` takes a schedule, and at 0 it is GRPO. In long runs entropy grows without
    bound: watch length and pass@1. The two stages of the title are what training shows, shrinkage and then expansion,
    not parts of the method. The 4 updates per batch are those of an earlier study of the same update
    (TianHongZXY/RLVR-Decomposed); the paper's are not known.

    Args:
        sign: Which advantages are kept: `negative` or `positive` (successes alone).
        ratio: Level of the importance ratio: `token` or `sequence`.
        n: Rollouts per task (the group size).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    method = grpo(n=n, clip=clip_low, kl=kl)
    method = method.set("objective.PolicyGradient.ratio", ratio).set("objective.PolicyGradient.clip.high", clip_high)
    return (method | KeepSign(sign)).with_(metric=(EntropyProfile(),), updates=Updates(mini_batches=mini_batches))
