"""CANON: conditional advantage estimation between the halves of a group."""

from __future__ import annotations

from typing import Any

from podium.core.schedule import Count, Number, Restarts
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import SplitHalves
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["canon"]


# The published schedules of mu, the weight of the comparison with the other half: 30 iterations of warm-up and periods
# of 40, in a run of 150.
WARMUP, PERIOD = ShareOfRun(30 / 150), ShareOfRun(40 / 150)
MU: dict[str, Any] = {
    "reward": "reward",
    "1 - reward": "1 - reward",
    "cosine": Restarts(start=1.0, peak=0.4, trough=1.0, warmup=WARMUP, period=PERIOD),
    "reversed cosine": Restarts(start=0.0, peak=1.0, trough=0.4, warmup=WARMUP, period=PERIOD),
}


@recipe(
    summary="Splits each group by a metric (entropy, length) and compares rollouts across and within the halves.",
    citation="CANON: Conditional Advantage Estimation for RL in Large Reasoning Models, https://github.com/biuboomc/CANON",
    tags=("advantage estimation", "entropy", "length bias", "exploration", "short reasoning"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.1,
        warmup=5,
        schedule="constant",
        clip=1.0,
        tasks=512,
        iterations=150,
        max_tokens=8192,
        source="biuboomc/CANON scripts/setups.sh",
    ),
    home=Home("sums", level=2),
    presets={
        "paper": {"max_length": 8192},
        "length": {"metric": "rollout.length"},
        "dynamic": {"mu": "reward"},
        "cosine": {"mu": "cosine"},
    },
)
def canon(
    n: int = 16,
    metric: str = "entropy",
    mu: Number | str = 1.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    max_length: Count = ShareOfTokens(1.0),
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 3.0,
    mini_batches: int = 16,
) -> Method:
    """The group is sorted by the metric and halved: inter = r − mean of the other half, intra = r − mean of its own
    half; A = (mu · inter + (1 − mu) · intra) / max_length, summed over tokens, mean over rollouts. No std, no KL
    penalty.

    With even groups and mu = 0.5 it is Dr. GRPO's advantage.

    Args:
        n: Rollouts per task (the group size).
        metric: What the group is sorted by: `entropy`, `random` or a rollout column such as `rollout.length`.
        mu: Weight of the inter-half comparison: a number, a schedule, or one of `reward` (the batch's mean reward), `1
            - reward`, `cosine`, `reversed cosine`.
        alpha: Factor on the rewards of the long half (metric `rollout.length`) or the low half (any other) in inter.
        beta: Added to inter in the high half and subtracted in the low one.
        max_length: The constant by which advantages are divided, the longest answer in tokens.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        mini_batches: Optimiser steps per batch.
    """
    halves = SplitHalves(
        metric=metric,
        mu=MU.get(mu, mu) if isinstance(mu, str) else mu,
        discount=alpha,
        discounted="high" if metric == "rollout.length" else "low",
        shift=beta,
        divisor=max_length,
    )
    term = PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual), aggregate=Aggregate("token sum, rollout mean"))
    updates = Updates(mini_batches=mini_batches)
    return Method(rollout=Sample(n=n), advantage=halves, objective=(term,), updates=updates)
