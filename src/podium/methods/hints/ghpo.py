"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.hints._shared import _from
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import ColumnBonus
from podium.strategies import Repair, SolutionShares

__all__ = ["ghpo"]


@recipe(
    summary="A group without a success is sampled again after the first quarter, half, three quarters of a solution.",
    citation="Liu et al. 2025, GHPO: Adaptive Guidance for Stable and Efficient LLM RL, https://github.com/hkgc-1/GHPO",
)
def ghpo(
    n: int = 8,
    shares: tuple[float, ...] = (0.25, 0.5, 0.75),
    after: int = 0,
    format_weight: float = 0.5,
    layout: str = r"(?m)^answer:",
    epsilon: float = 1e-4,
    clip: float = 0.2,
    style: str = "short",
) -> Method:
    """Where all n rollouts are wrong, the question gets the first 25 % of the characters of a solution, then 50 %, then
    75 %, until some rollout is right; those rollouts stand for the group, and are trained with the hint in the prompt.
    R = accuracy + 0.5 · [right format], A = (R − mean) / (std + 1e-4), token mean, no KL.

    A group with a success is never hinted. Never solved: the last rollouts stay, and only their format differs. Hints
    begin after `after` iterations; with none ever it is GRPO.
    """
    return Method(
        rollout=Repair(n=n, help=SolutionShares(shares, style=style), active=_from(after)),
        annotate=(MatchPatterns((("format", layout),)),),
        reward=(ColumnBonus("rollout.format", format_weight),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        metric=(ReportMean("rollout.guided"),),
    )
