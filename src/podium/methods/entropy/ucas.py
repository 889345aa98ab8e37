"""UCAS: uncertainty-aware advantage shaping."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import SelfCertainty, StatisticFactor, TokenPenalty
from podium.strategies import Sample

__all__ = ["ucas"]


@recipe(
    summary="Uncertainty-aware advantages: more credit for unsure correct answers, more blame for confident errors.",
    citation="Uncertainty-aware Advantage Shaping (UCAS), https://github.com/xvolcano02/UCAS",
    tags=("uncertainty", "self-certainty", "overconfidence", "exploration", "token-level", "advantage estimation"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        tasks=1024,
        max_tokens=3072,
        max_turns=1,
        source="xvolcano02/UCAS: train_ucas_math_7b.sh",
    ),
    home=Home("sums", level=2),
    presets={"mean": {"over": "mean"}, "1.5b": {"n": 8, "mini_batches": 4}},
)
def ucas(
    n: int = 16,
    positive: float = 0.25,
    negative: float = 0.35,
    penalty: float = 0.05,
    over: str = "sum",
    scale: str = "std",
    singleton: str = "raw",
    clip: float = 0.2,
    dual: float = 3.0,
    mini_batches: int = 8,
) -> Method:
    """C = Σ_t (logsumexp − mean of the logits); A ← A · e^{−0.25 z(C)} where A > 0, A · e^{0.35 z(C)} elsewhere, z over
    the group; then A_t ← A − 0.05 · (min-max of the tokens' raw logits in the batch), at least 0 where A > 0. PPO's
    clip and dual clip, token mean, no KL penalty; 8 updates per batch. All of it is detached.

    positive = negative = penalty = 0 is GRPO with a token mean. The release sums C, so that length counts as certainty;
    `ucas@mean` averages it. Groups of equal rewards get the deduction alone.

    Args:
        n: Rollouts per task (the group size).
        positive: Strength of the factor on positive advantages.
        negative: Strength of the factor on the others.
        penalty: Largest deduction for a confident token.
        over: How certainty is taken over tokens: `sum` or `mean`.
        scale: `std`, or `none` to divide neither the advantage nor the certainty by its std.
        singleton: Certainty of a group of one: `raw` as released, or `zero`, which leaves its advantage unchanged.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale=scale),
        shape=(
            SelfCertainty(over),
            StatisticFactor(scale=scale, positive=positive, negative=negative, singleton=singleton),
            TokenPenalty(weight=penalty),
        ),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
    )
