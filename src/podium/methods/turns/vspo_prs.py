"""VSPO and PRS: value-based sampling and progressive reward shaping."""

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
    summary="Progressive reward shaping; zero-variance groups are replaced by copies of high-value ones.",
    citation="Progressive Reward Shaping and Value-based Sampling Policy Optimization",
    tags=("reward shaping", "zero-variance groups", "data selection", "tool use", "agents"),
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
    The place of a zero-variance group goes to a copy of one drawn by V = (1 − mean) · std; each of c copies counts
    c^−smoothing.

    Without zero-variance groups and stages it is GRPO. A copy is implemented as a weight of its group, which is exact
    since the loss is a mean over rollouts of token means.

    Args:
        n: Rollouts per task (the group size).
        parsed: Pattern (regular expression) of an answer that parses.
        formatted: Pattern of the required format.
        stages: Pay rewards in stages; False: the world's reward.
        smoothing: Exponent that damps copies: 0 none, 1 a task weighs the same however often it is copied.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
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
