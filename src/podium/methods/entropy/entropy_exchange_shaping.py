"""Perplexity and position shaping: decomposing the entropy-performance exchange."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.part import Shape
from podium.core.schedule import Count, Steps
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.base.dapo import dapo
from podium.methods.catalogue import recipe
from podium.parts.metric.entropies import EntropyProfile
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import PerplexityFactor, PositionBonus

__all__ = ["entropy_exchange_shaping"]


@recipe(
    summary="Reward shaping for the plateau stage: larger advantages for low-perplexity rollouts or late tokens.",
    citation="Decomposing the Entropy-Performance Exchange, 2025, https://github.com/RUCAIBox/Slow_Thinking_with_LLMs",
    extends="dapo",
    tags=("entropy", "reward shaping", "token-level", "exploration"),
    protocol=Protocol(
        model="Qwen2.5-7B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.1,
        warmup=10,
        schedule="constant",
        clip=1.0,
        tasks=512,
        max_tokens=8192,
        max_turns=1,
        source="RUCAIBox/Slow_Thinking_with_LLMs: entropy2performance/scripts/location.sh and low_ppl.sh, "
        "verl/verl/trainer/ppo/core_algos.py",
    ),
    home=Home("sums", level=2, max_tokens=40),
    presets={
        "position": {},
        "perplexity": {"variant": "perplexity"},
        "paper": {"start": 200, "stop": 299, "max_length": 8192, "buffer": 1024},
        "card": {
            "slope": 1.0,
            "centre": 0.0,
            "cap": float("inf"),
            "first": 1,
            "scope": "batch",
            "start": 0,
            "stop": None,
        },
    },
)
def entropy_exchange_shaping(
    variant: str = "position",
    alpha: float = 0.01,
    scope: str = "group",
    gamma: float = 0.1,
    slope: float = 15.0,
    centre: float = 0.5,
    cap: float = 0.5,
    first: int = 0,
    start: Count = ShareOfRun(0.5),
    stop: Count | None = ShareOfRun(0.75),
    n: int = 8,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    max_length: Count = ShareOfTokens(1.0),
    buffer: Count = ShareOfTokens(0.125),
    max_rounds: int = 10,
    mini_batches: int = 16,
) -> Method:
    """DAPO, in three stages of one run: plain while the entropy falls, shaped on the plateau, and plain again.

    - `position`: A + sign(A) · min(gamma · σ(slope · (t/L − centre)), cap · |A|) at the t-th of L tokens.
    - `perplexity`: A · clip(1 − alpha · w, 0.8, 1.2), with w the rollout's log-perplexity standardised over its group
      without outliers.

    alpha = 0 or gamma = 0 is DAPO. The release shapes by position in iterations 201 to 299 and not after; how long its
    runs were is not given, and the shares of the run are ours. Its weight by perplexity is computed and never applied:
    here it is, from `start` on, as in the paper. A run can also wait for the plateau itself:
    `Phases(dapo().until(Plateau("entropy", falling=True)), entropy_exchange_shaping(start=0, stop=None))`. `@card` is
    an earlier reading of the paper: perplexity over the batch, and a bonus that rises from half its size to 0.73 of it.

    Args:
        variant: `position` or `perplexity`.
        alpha: Strength of the perplexity factor.
        scope: Over what log-perplexities are standardised: `group` or `batch`.
        gamma: Strength of the position bonus.
        slope: Steepness of the position bonus.
        centre: The relative position at which the bonus is half of gamma.
        cap: The largest position bonus as a share of |A|.
        first: The number of the first token, 0 or 1.
        start: Iterations before the shaping begins, or a share of the run; 0: none.
        stop: Iterations after which it ends, or a share of the run; None: never.
        n: Rollouts per task (the group size).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        max_length: Length limit of an answer in tokens, where the overlong penalty is full, or a share of the run's.
        buffer: Tokens before the limit over which the penalty grows from 0, or a share of the run's limit.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        mini_batches: Optimiser steps per batch.
    """

    def staged(strength: float) -> float | Steps:
        values, starts = ((strength,), (0,)) if start == 0 else ((0.0, strength), (0, start))
        if stop is not None:
            values, starts = (*values, 0.0), (*starts, stop)
        return strength if len(values) == 1 else Steps(values, starts)

    if variant == "position":
        part: Shape = PositionBonus(staged(gamma), slope, centre, cap, first)
    elif variant == "perplexity":
        bounds = {"low": 0.8, "high": 1.2} if scope == "group" else {}
        part = PerplexityFactor(staged(alpha), scope=scope, **bounds)
    else:
        raise PodiumError(f"entropy-exchange-shaping: variant = {variant!r} is not 'position' or 'perplexity'.")
    method = dapo(n=n, max_length=max_length, buffer=buffer, max_rounds=max_rounds).with_(
        objective=PolicyGradient(clip=Clip(clip_low, clip_high)),
        updates=Updates(mini_batches=mini_batches),
        metric=(EntropyProfile(),),
    )
    return method | part
