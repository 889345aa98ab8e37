"""TODO"""

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
    summary="A wrong answer that began well keeps its right steps, and a guide's end; it replaces the failure.",
    citation="SCOPE: Step-wise Correction for On-Policy Exploration",
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
    scored by the world, whose solutions are the guide. `diversity` in the metrics is 1 − the mean overlap of the sets
    of tokens of two rollouts of a task, which the paper reports to grow.
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
