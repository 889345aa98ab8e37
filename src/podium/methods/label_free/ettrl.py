"""TODO"""

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
    summary="TTRL with rollouts that fork at uncertain tokens, and more weight for those that are certain.",
    citation="ETTRL: Balancing Exploration and Exploitation in LLM Test-Time RL Via Entropy Mechanism",
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
    """`trees` rollouts, from the `points` tokens of highest entropy of each `branches` more: trees · (1 + points ·
    branches) leaves, which vote as in TTRL. A ← (2 − H_i / H̄) · A with the mean entropy H_i of each leaf and H̄ of the
    group, at least `floor`; or with `ettrl@clip` A ← clip(A, ±limit).

    points = 0 is TTRL with `trees` rollouts, up to the weight, whose mean is 1 in each group. Above 2 H̄ the paper's
    weight turns advantages around: floor = None does as the paper. Shared tokens are trained in every leaf.
    """
    if reshape not in ("entropy", "clip"):
        raise PodiumError(f"ettrl: reshape = {reshape!r} is not 'entropy' or 'clip'.")
    held = Whiten(centre="none", scale="none", level="rollout", limit=limit)
    return ttrl(trees, trees, epsilon, clip, kl).with_(
        rollout=Fork(n=trees, fork_points=TopEntropy(points), branches=branches),
        shape=(CertaintyFactor(floor) if reshape == "entropy" else held,),
        metric=(VoteQuality(), ReportMean("rollout.fork")),
    )
