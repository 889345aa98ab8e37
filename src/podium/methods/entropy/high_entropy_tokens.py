"""Forking tokens: beyond the 80/20 rule."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import SELECTED
from podium.methods.base.dapo import dapo
from podium.methods.catalogue import recipe
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import SelectTokens

__all__ = ["high_entropy_tokens"]


@recipe(
    summary="Trains only on forking tokens, the 20% with the highest entropy (80/20 rule).",
    citation="Wang et al. 2025, Beyond the 80/20 Rule, https://arxiv.org/abs/2506.01939",
    extends="dapo",
    tags=("entropy", "token-level", "exploration", "efficiency"),
    protocol=Protocol(
        model="Qwen3-32B base",
        lr=1e-6,
        warmup=0,
        schedule="constant",
        tasks=512,
        iterations=1360,
        max_tokens=20480,
        max_turns=1,
        source="arXiv 2506.01939, sections 5.1 and 5.2; rollouts per task from a later study that adopts its settings",
    ),
    home=Home("sums", level=2, max_tokens=40),
    presets={
        "paper": {"max_length": 20480, "buffer": 4096},
        "trl": {"over": "all"},
        "lp-reg": {"rule": "floor"},
        "siren": {"rule": "above_quantile", "scope": "rollout"},
    },
)
def high_entropy_tokens(
    share: float = 0.2,
    rule: str = "quantile",
    scope: str = "batch",
    over: str = "where",
    of: str = "now",
    n: int = 16,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float | None = 10.0,
    max_length: Count = ShareOfTokens(1.0),
    buffer: Count = ShareOfTokens(0.2),
    mini_batches: int = 16,
) -> Method:
    """DAPO's loss where H_t ≥ the (1 − share)-quantile of the entropies of all trained tokens of the update, averaged
    over these tokens (equation 6 of the paper). No KL penalty, no entropy bonus; 16 updates per batch.

    share = 1 is DAPO. `@trl` divides by all trained tokens, which makes steps 1/share times smaller. Two other code
    bases select differently: `@lp-reg` the ⌊share · n⌋ largest, `@siren` those strictly above the quantile of each
    rollout.

    Args:
        share: Share of the tokens that is trained.
        rule: How they are selected: `quantile`, `above_quantile`, `floor` or `ceil`.
        scope: Where the share is taken: the `batch` (each update) or each `rollout`.
        over: What the mean divides by: the tokens selected (`where`), or `all` trained tokens.
        of: Whose entropy: the policy's `now`, the `old` policy's or the `sampler`'s.
        n: Rollouts per task (the group size).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        max_length: Length limit of an answer in tokens, where the overlong penalty is full, or a share of the run's.
        buffer: Tokens before the limit over which the penalty grows from 0, or a share of the run's limit.
        mini_batches: Optimiser steps per batch.
    """
    method = dapo(n=n, clip_low=clip_low, clip_high=clip_high, max_length=max_length, buffer=buffer).with_(
        objective=PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual), where=SELECTED, over=over),
        updates=Updates(mini_batches=mini_batches),
        metric=ReportMean(SELECTED),
    )
    return method | SelectTokens("entropy", share, scope=scope, rule=rule, of=of)
