"""ETTRL: entropy-based tree majority rollout and advantage reshaping for test-time RL."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
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
    tags=("test-time training", "label-free", "majority vote", "entropy", "rollout budget", "exploration"),
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
    kl: float = 0.001,
) -> Method:
    """`trees` rollouts, and from the `points` tokens of highest entropy of each `branches` more: trees · (1 + points ·
    branches) leaves, which vote as in TTRL. A ← (2 − H_i / H̄) · A with the mean entropy H_i of each leaf and H̄ of the
    group, at least `floor`; or with `ettrl@clip` A ← clip(A, ±limit).

    points = 0 is TTRL with `trees` rollouts, up to the weight, whose mean is 1 in each group. Above 2 H̄ the paper's
    weight reverses the sign of advantages. Shared tokens are trained in every leaf.

    Args:
        trees: Rollouts per task that start from the prompt.
        points: Tokens of each at which it branches.
        branches: Continuations of each such token.
        reshape: `entropy` (weight by certainty) or `clip` (bound the advantage).
        floor: Least weight; None: as in the paper, negative above 2 H̄.
        limit: Largest size of an advantage (`clip`).
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    if reshape not in ("entropy", "clip"):
        raise PodiumError(f"ettrl: reshape = {reshape!r} is not 'entropy' or 'clip'.")
    bounded = Whiten(centre="none", scale="none", level="rollout", limit=limit)
    return ttrl(trees, trees, epsilon, clip, kl).with_(
        rollout=Fork(n=trees, fork_points=TopEntropy(points), branches=branches),
        shape=(CertaintyFactor(floor) if reshape == "entropy" else bounded,),
        metric=(VoteQuality(), ReportMean("rollout.fork")),
    )
