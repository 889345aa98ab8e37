"""ROSE: efficient reasoning by semantically diverse exploration."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import NodeDifference, PositionDifference
from podium.parts.keep import KeepMixed
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import HoldToShortest
from podium.strategies import Grow

__all__ = ["rose"]


@recipe(
    summary="Semantic-entropy branching for diverse rollouts, segment-level credit and a length-aware advantage.",
    citation="ROSE: Reinforced Efficient Reasoning via Semantically Diverse Exploration, "
    "https://github.com/ZiqiZhao1/ROSE-rl",
    tags=("exploration", "entropy", "credit assignment", "length penalty", "short reasoning"),
    protocol=ADAMW.replace(
        model="Llama-3.2-3B-Instruct; Qwen2.5-Math-1.5B, Qwen3-4B and 8B",
        lr=1e-6,
        tasks=512,
        max_tokens=4096,
        source="ZiqiZhao1/ROSE-rl example.sh",
    ),
    home=Home("sums", level=2, tasks=64, iterations=4),
    presets={"paper": {"max_length": 4096}, "tree": {"credit": "prefix"}},
)
def rose(
    n: int = 8,
    restart: float = 0.5,
    metric: str = "cosine-entropy",
    candidates: int = 20,
    length_exponent: float = 0.0,
    credit: str = "position",
    max_length: Count = ShareOfTokens(1.0),
    clip: float = 0.2,
    dual: float = 3.0,
    kl: float = 0.001,
    max_rounds: int = 8,
    mini_batches: int = 64,
) -> Method:
    """Each rollout starts from the prompt with probability `restart`, or forks from the place with the largest −F · H
    among all so far; A = V(next fork) − V(last fork), V(k) the mean reward of the group's rollouts with a fork at k, at
    the end R − V. Right answers longer than the shortest lose |A| · (1 − ((L_s − k*)/(L − k*))^λ) after what they
    share.

    restart = 1 with λ = 0 is Dr. GRPO. As in the release V is keyed by the position alone, so forks at the same
    position of different texts are mixed; `rose@tree` keys V, and what two answers share, by the text. λ is 0 in the
    release, whose batches of 512 tasks are trained 8 at a time, in 64 steps.

    Args:
        n: Rollouts per task (the group size).
        restart: Probability of a new rollout from the prompt.
        metric: What picks the fork: `cosine-entropy`, `entropy` or `cosine` alone.
        candidates: Likeliest next tokens whose embeddings are compared.
        length_exponent: λ of the length-aware advantage; 0: length does not count.
        credit: What V is keyed by: `position` as released, or `prefix` (the text).
        max_length: The constant by which the token sum of a rollout is divided; by default `max_tokens`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        mini_batches: Optimiser steps per batch.
    """
    if credit not in ("position", "prefix"):
        raise PodiumError(f"rose: credit = {credit!r} is not 'position' or 'prefix'.")
    by_place = PositionDifference(length_exponent)
    aggregate = Aggregate("token sum / length, rollout mean", length=max_length)
    method = Method(
        rollout=Grow(n=n, restart=restart, metric=metric, candidates=candidates),
        keep=(KeepMixed(max_rounds=max_rounds),),
        advantage=by_place if credit == "position" else NodeDifference(values="leaves"),
        shape=(HoldToShortest(length_exponent),) if credit == "prefix" and length_exponent else (),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual), aggregate=aggregate),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.fork"),),
    )
    return anchored(method, KL("k3", coefficient=kl, aggregate=aggregate))
