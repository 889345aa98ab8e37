"""SCOPE: step-wise correction for on-policy exploration."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import RouteByOrigin
from podium.parts.metric.diversity import Diversity
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient, Shaped
from podium.strategies import Rectified, Repair, RuledSteps, StepScorer, ValuedSteps

__all__ = ["scope"]


@recipe(
    summary="Recycles failures: keeps the correct prefix of a wrong answer and rectifies the rest off-policy.",
    citation="SCOPE: Step-wise Correction for On-Policy Exploration",
    tags=("rectification", "process reward", "off-policy", "exploration", "teacher"),
    protocol=Protocol(source="arXiv 2602.24110: the pages that we could read give no numbers of the run"),
    home=Home("sums", level=2),
)
def scope(
    n: int = 8,
    threshold: float = 0.5,
    prefix: float = 0.5,
    most: int = 1,
    gamma: float = 0.1,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    mini_batches: int = 4,
    prm: str = "",
    guide: str = "",
) -> Method:
    """A wrong rollout whose first step with a score below `threshold` comes after at least the share `prefix` of its
    steps is cut there and continued by a guide; if the whole is then right it replaces its source. GRPO's advantage on
    the new group; tokens before the cut: PPO's clip; the guide's: −A p / (p + gamma). Mean over all tokens.

    prefix > 1 is GRPO; prefix = 0 also replaces whole rollouts. The formulas follow the abstract; the four steps per
    batch are ours. Steps are lines, scored by a process reward model (`prm`) or by the world, which also completes an
    answer where there is no `guide` (`docs/guide/roles.md`). `diversity` in the metrics is 1 − the mean overlap of the
    token sets of two rollouts of a task, which the paper reports to grow.

    Args:
        n: Rollouts per task (the group size).
        threshold: Step score below which a step is wrong.
        prefix: Least share of right steps before the first wrong one.
        most: Rollouts per group that are rectified at most.
        gamma: Shaping constant of the off-policy term, a probability.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
        prm: A process reward model: the path of a model with a value head and the policy's tokenizer; empty: the
            world's rules score the steps.
        guide: The model that corrects: a path, with the policy's tokenizer; empty: the world does.
    """
    scorer: StepScorer = ValuedSteps() if prm else RuledSteps()
    help_ = Rectified(threshold, prefix, most, scorer, "guide" if guide else "")
    return Method(
        rollout=Repair(n=n, help=help_, when="some wrong", take="rows", most=most),
        keep=(RouteByOrigin(),),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where="token.own", over="all"),
            Shaped(gamma, where="token.foreign", over="all"),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided"), Diversity()),
        roles=tuple(Role(name, source=path) for name, path in (("prm", prm), ("guide", guide)) if path),
    )
