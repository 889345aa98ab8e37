"""ETTRL: entropy-based tree majority rollout and advantage reshaping for test-time RL."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.methods.label_free.ttrl import ttrl
from podium.parts.metric import VoteQuality
from podium.parts.metric.report_mean import ReportMean
from podium.parts.shape import CertaintyFactor, Whiten
from podium.strategies import Fork, TopEntropy

__all__ = ["ettrl"]


@recipe(
    summary="Test-time RL with entropy-based branching for cheaper votes and certainty-weighted advantages.",
    citation="ETTRL: Balancing Exploration and Exploitation in LLM Test-Time RL Via Entropy Mechanism",
    extends="ttrl",
    tags=("test-time training", "label-free", "majority vote", "entropy", "rollout budget", "exploration"),
    protocol=Protocol(model="Qwen2.5-Math-1.5B", source="notes on arXiv 2508.11356; it builds on TTRL's code"),
    home=Home("sums", level=2, tasks=8, iterations=8),
    presets={"clip": {"reshape": "clip"}},
)
def ettrl(
    trees: int = 12,
    points: int = 2,
    branches: int = 2,
    reshape: str = "entropy",
    floor: float | None = 0.0,
    limit: float = 2.0,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    dual: float | None = 3.0,
    kl: float = 0.001,
    mini_batches: int = 8,
) -> Method:
    """`trees` rollouts, and from the `points` tokens of highest entropy of each `branches` more: trees · (1 + points ·
    branches) leaves, which vote as in TTRL. A ← (2 − H_i / H̄) · A with the mean entropy H_i of each leaf and H̄ of the
    group, at least `floor`; or with `ettrl@clip` A ← clip(A, ±limit).

    points = 0 is TTRL with `trees` rollouts, up to the weight, whose mean is 1 in each group. Above 2 H̄ the paper's
    weight reverses the sign of advantages. Shared tokens are trained in every leaf.
    Updates per batch and the dual clip are TTRL's, on whose code the authors build.

    Args:
        trees: Rollouts per task that start from the prompt.
        points: Tokens of each at which it branches.
        branches: Continuations of each such token.
        reshape: `entropy` (weight by certainty) or `clip` (bound the advantage).
        floor: Least weight; None: as in the paper, negative above 2 H̄.
        limit: Largest size of an advantage (`clip`).
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    if reshape not in ("entropy", "clip"):
        raise PodiumError(f"ettrl: reshape = {reshape!r} is not 'entropy' or 'clip'.")
    bounded = Whiten(centre="none", scale="none", level="rollout", limit=limit)
    method = ttrl(trees, trees, epsilon, clip, dual, kl, mini_batches)
    return method.replace(protocol=None).with_(
        rollout=Fork(n=trees, fork_points=TopEntropy(points), branches=branches),
        shape=(CertaintyFactor(floor) if reshape == "entropy" else bounded,),
        metric=(VoteQuality(), ReportMean("rollout.fork")),
    )
