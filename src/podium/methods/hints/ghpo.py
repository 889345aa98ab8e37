"""GHPO: guided hybrid policy optimisation."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import clip_for
from podium.methods.catalogue import recipe
from podium.methods.hints._shared import _from
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import PolicyGradient
from podium.parts.reward import ColumnBonus
from podium.strategies import Repair, SolutionShares

__all__ = ["ghpo"]


@recipe(
    summary="Adaptive guidance: groups without a success are resampled with 25, 50, 75% of the solution in the prompt.",
    citation="Liu et al. 2025, GHPO: Adaptive Guidance for Stable and Efficient LLM RL, https://github.com/hkgc-1/GHPO",
    tags=("hints", "difficulty", "zero-variance groups", "curriculum"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        warmup=0.1,
        schedule="cosine",
        tasks=196,
        max_tokens=2048,
        source="hkgc-1/GHPO recipes/Qwen2.5-Math-7B/ghpo/config_ghpo.yaml",
    ),
    home=Home("sums", level=2, max_tokens=32),
)
def ghpo(
    n: int = 8,
    shares: tuple[float, ...] = (0.25, 0.5, 0.75),
    after: Count = 0,
    format_weight: float = 0.5,
    layout: str = r"(?m)^answer:",
    epsilon: float = 1e-4,
    clip: float = 0.2,
    mini_batches: int = 1,
    style: str = "short",
) -> Method:
    """Where all n rollouts are wrong, the question gets the first 25 % of the characters of a solution, then 50 %, then
    75 %, until some rollout is right; those rollouts replace the group, and are trained with the hint in the prompt. R
    = accuracy + 0.5 · [right format], A = (R − mean) / (std + 1e-4), token mean, no KL penalty.

    A group with a success is never hinted. If a task is never solved, the last rollouts stay, and only their format
    differs. If hints never begin, it is GRPO. As in the release a batch is trained in one step, in which there is
    nothing to clip.

    Args:
        n: Rollouts per task (the group size).
        shares: Shares of the solution's characters that are shown, one after the other.
        after: Iterations before hints begin.
        format_weight: Reward for the right format.
        layout: Pattern (regular expression) of the right format.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip], where a batch has several steps.
        mini_batches: Optimiser steps per batch.
        style: Which of the world's solutions to take, by its style (`short`, …).
    """
    return Method(
        rollout=Repair(n=n, help=SolutionShares(shares, style=style), active=_from(after)),
        annotate=(MatchPatterns((("format", layout),)),),
        reward=(ColumnBonus("rollout.format", format_weight),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=clip_for(mini_batches, clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided"),),
    )
