"""TODO"""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import ProgressiveReward
from podium.parts.shape import ReplaceFlat, SmoothCopies
from podium.strategies import Sample

__all__ = ["vspo_prs"]


@recipe(
    summary="Groups without a signal give their places to copies of valuable ones; rewards are paid in stages.",
    citation="Progressive Reward Shaping and Value-based Sampling Policy Optimization",
    presets={"unsmoothed": {"smoothing": 0.0}},
)
def vspo_prs(
    n: int = 5,
    parsed: str = ".",
    formatted: str = "(?m)^answer:",
    stages: bool = True,
    smoothing: float = 0.5,
    kl: float = 0.001,
) -> Method:
    """r = 0 where the pattern `parsed` is not found, 0.1 where `formatted` is not, else 0.2 + 0.8 · the world's reward.
    The place of a flat group goes to a copy of one drawn by V = (1 − mean) · std; each of c copies counts c^−smoothing.

    A copy is a weight of its group, exact since the loss is a mean over rollouts of token means. Without flat groups
    and stages it is GRPO.
    """
    aggregate = Aggregate("token mean, rollout mean")
    marks = MatchPatterns((("parsed", parsed), ("formatted", formatted)))
    method = Method(
        rollout=Sample(n=n),
        annotate=(marks,) if stages else (),
        reward=(ProgressiveReward(),) if stages else (),
        advantage=Normalize(singleton="zero"),
        shape=(ReplaceFlat(), SmoothCopies(smoothing)),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2), aggregate=aggregate),),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl, aggregate=aggregate) | Role("ref")
