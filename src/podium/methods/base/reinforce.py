"""REINFORCE: the score-function policy gradient."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.strategies import Sample

__all__ = ["reinforce"]


@recipe(
    summary="Vanilla policy gradient: raise the log-probability of sampled tokens in proportion to the reward.",
    citation="Williams 1992, Simple statistical gradient-following algorithms",
    tags=("policy gradient", "on-policy"),
)
def reinforce(n: int = 1, aggregate: str = "token sum, rollout mean") -> Method:
    """loss = −A · log π · w, with w = 1 or a detached importance weight (a `weight` column); A is the reward.

    On-policy its gradient is PPO's. With `advantage=Normalize()` it is on-policy GRPO without clip and KL penalty.

    Args:
        n: Rollouts per task.
        aggregate: How the losses of tokens become one number, as the path of an `Aggregate`.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(centre="none", scale="none"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate(aggregate)),),
    )
