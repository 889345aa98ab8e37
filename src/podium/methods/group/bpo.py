"""BPO: bounded-ratio policy optimisation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient, Target
from podium.parts.shape import AlternativeAdvantage
from podium.strategies import Sample

__all__ = ["bpo"]


@recipe(
    summary="Replaces PPO's clip by regressing the importance ratio to a bounded target, which corrects overshooting.",
    citation="Bounded Ratio Reinforcement Learning, https://github.com/bounded-ratio-rl/brrl",
    tags=("trust region", "clipping", "importance sampling", "regression"),
    presets={"median": {"threshold": "median"}},
)
def bpo(n: int = 8, eps: float = 0.2, width: float = 1e-4, floor: float = 0.0, threshold: str = "mean") -> Method:
    """(|A| + floor) · |r − r*|, r* = 1 + eps · tanh(Ã / (2·width)), detached; token mean, no KL penalty. A is GRPO's
    advantage; Ã is A itself, or with `threshold="median"` the reward minus the group's median, not normalised.

    On-policy the gradient is that of PPO and REINFORCE, −A. width → 0 is the target 1 ± eps by the sign of Ã, width → ∞
    no update. With the median and binary rewards the more frequent outcome has Ã = 0: its rollouts are held where they
    are.

    Args:
        n: Rollouts per task (the group size).
        eps: Largest distance of the target ratio from 1.
        width: Width of the transition between 1 − eps and 1 + eps, in units of Ã.
        floor: Weight that every token has in addition to |A|.
        threshold: What a rollout must beat to go up: the group's `mean` or `median`.
    """
    if threshold not in ("mean", "median"):
        raise PodiumError(f"bpo: threshold = {threshold!r} is not 'mean' or 'median'.")
    median = threshold == "median"
    target = Target(eps, eps, width=width, floor=floor, side="advantage.median" if median else "advantage")
    by_median = AlternativeAdvantage(Normalize(centre="median", scale="none", singleton="zero"), "median")
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(by_median,) if median else (),
        objective=(PolicyGradient(clip=target),),
    )
