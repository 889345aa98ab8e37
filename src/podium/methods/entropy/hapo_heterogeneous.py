"""HAPO: heterogeneous adaptive policy optimisation by token entropy."""

from __future__ import annotations

from podium.core.schedule import Count, Follow
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.memories import EntropyScales
from podium.method import Home, Method, Protocol
from podium.methods.base.dapo import dapo
from podium.methods.catalogue import recipe
from podium.parts.advantage import TokenWeighted
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import HeterogeneousTokens
from podium.protocols.sampling import Warmth
from podium.strategies import Draw, Sample

__all__ = ["hapo_heterogeneous"]


@recipe(
    summary="Token-level treatment by entropy: adaptive temperature, clip range, advantages and group statistics.",
    citation="HAPO: From Uniform to Heterogeneous, https://github.com/starriver030515/HAPO",
    extends="dapo",
    tags=("entropy", "token-level", "clipping", "exploration", "dynamic sampling"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.1,
        warmup=10,
        schedule="constant",
        clip=1.0,
        tasks=512,
        max_tokens=10240,
        max_turns=1,
        source="starriver030515/HAPO: recipe/qwen2.5_math_7b.sh",
    ),
    home=Home("sums", level=2, max_tokens=48),
    presets={"paper": {"max_length": 10240, "buffer": 4096}, "release": {"sign": "released"}},
)
def hapo_heterogeneous(
    n: int = 16,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    alpha: float = 1.0,
    beta: float = 1.0,
    pivot: float = 0.8,
    sign: str = "intended",
    dual: float = 10.0,
    warmth: float = 0.05,
    max_length: Count = ShareOfTokens(1.0),
    buffer: Count = ShareOfTokens(0.4),
    max_rounds: int = 16,
    mini_batches: int = 16,
) -> Method:
    """Advantages with mean and std over the tokens of a group; ĥ, the log-entropy about its 0.8 quantile scaled to [−1,
    1], opens the upper clip bound by (1 + alpha ĥ) where ĥ > 0, else the lower one by (1 − alpha ĥ), and changes A to A
    (1 + beta ĥ) outside the middle of the range (ĥ > 0) or inside it (ĥ ≤ 0). DAPO's sampling and overlong penalty,
    dual clip, token mean; 16 updates per batch.

    Tokens are sampled at temperature T (1 + warmth · ĥ) with the ĥ of their own position, on the scale of the previous
    batch.

    alpha = beta = warmth = 0 with equal lengths is DAPO up to the population std. In the release certain tokens have
    the wrong sign and count as uncertain: `@release`.

    Args:
        n: Rollouts per task (the group size).
        clip_low: Lower clip before it is opened, 1 − clip_low.
        clip_high: Upper clip before it is opened, 1 + clip_high.
        alpha: How far the clip bounds open with entropy.
        beta: How much the advantage changes with entropy.
        pivot: Quantile of the log-entropy that counts as neither certain nor uncertain.
        sign: `intended`, or `released` with the release's sign error.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        warmth: How much the sampling temperature follows entropy; 0: a constant temperature.
        max_length: Length limit of an answer in tokens, where the overlong penalty is full, or a share of the run's.
        buffer: Tokens before the limit over which the penalty grows from 0, or a share of the run's limit.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        mini_batches: Optimiser steps per batch.
    """
    bounds = Clip("token.clip_low", "token.clip_high", dual=dual)
    objective = PolicyGradient(clip=bounds)
    method = dapo(n=n, max_length=max_length, buffer=buffer, max_rounds=max_rounds)
    method = method.with_(advantage=TokenWeighted(), objective=objective, updates=Updates(mini_batches=mini_batches))
    method = method.with_(metric=ReportMean("token.clip_high"))
    method = method | HeterogeneousTokens(clip_low, clip_high, alpha, beta, pivot, sign)
    if warmth == 0:
        return method
    scale = {name: Follow(f"warmth.{name}") for name in ("pivot", "above", "below")}
    return method | Sample(n=n, draw=Draw(warmth=Warmth(warmth, **scale))) | EntropyScales(pivot, sign)
