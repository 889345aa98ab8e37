"""SCOPE: step-wise correction for on-policy exploration."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import RouteByOrigin
from podium.parts.metric.diversity import Diversity
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient, Shaped
from podium.strategies import Rectified, Repair

__all__ = ["scope"]


@recipe(
    summary="Recycles failures: keeps the correct prefix of a wrong answer and rectifies the rest off-policy.",
    citation="SCOPE: Step-wise Correction for On-Policy Exploration",
    tags=("rectification", "process reward", "off-policy", "exploration", "teacher"),
)
def scope(
    n: int = 8,
    threshold: float = 0.5,
    prefix: float = 0.5,
    most: int = 1,
    gamma: float = 0.1,
    epsilon: float = 1e-6,
    clip: float = 0.2,
) -> Method:
    """A wrong rollout whose first step with a score below `threshold` comes after at least the share `prefix` of its
    steps is cut there and continued by a guide; if the whole is then right it replaces its source. GRPO's advantage on
    the new group; tokens before the cut: PPO's clip; the guide's: −A p / (p + gamma). Mean over all tokens.

    prefix > 1 is GRPO; prefix = 0 also replaces whole rollouts. The formulas follow the abstract. Steps are lines,
    scored by the world, whose solutions are the guide. `diversity` in the metrics is 1 − the mean overlap of the token
    sets of two rollouts of a task, which the paper reports to grow.

    Args:
        n: Rollouts per task (the group size).
        threshold: Step score below which a step is wrong.
        prefix: Least share of right steps before the first wrong one.
        most: Rollouts per group that are rectified at most.
        gamma: Shaping constant of the off-policy term, a probability.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    return Method(
        rollout=Repair(n=n, help=Rectified(threshold, prefix, most), when="some wrong", take="rows", most=most),
        keep=(RouteByOrigin(),),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where="token.own", over="all"),
            Shaped(gamma, where="token.foreign", over="all"),
        ),
        metric=(ReportMean("rollout.guided"), Diversity()),
    )
