"""RGR-GRPO: reward and guidance through rubrics."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient, Shaped
from podium.parts.reward import Rubric
from podium.strategies import Refine, criteria_judge

__all__ = ["rgr_grpo"]


@recipe(
    summary="Rubrics as dense reward and as guidance: the best imperfect answer is refined and joins the group.",
    citation="RGR-GRPO: Reward and Guidance through Rubrics",
    tags=("rubric", "reflection", "hints", "off-policy", "reward shaping"),
    protocol=Protocol(model="Qwen2.5-7B", iterations=400, source="notes on arXiv 2511.12344"),
    home=Home("countdown", level=2),
    presets={"judge": {"judge": "podium/tiny2"}},
)
def rgr_grpo(
    n: int = 8,
    rewrites: int = 1,
    gamma: float = 0.1,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    mini_batches: int = 4,
    judge: str = "",
    way: str = "options",
) -> Method:
    """R = Σ points of the criteria met / Σ of all points. Unless some rollout meets all, the policy is shown the best
    one with the criteria that it misses, and rewrites it; a rewrite that is better joins the group. A = (R − mean) /
    (std + 1e-6) over all of them; the policy's own rollouts: PPO's clip; a rewrite, as an answer to the bare question:
    −A p / (p + gamma). Mean over all tokens.

    Without a rewrite it is GRPO with rubric rewards. The formulas follow the abstract and notes on the paper; the four
    steps per batch are ours. Embedded worlds decide by rule which criteria are met. Rubrics of your own can come from a
    file, with a model as judge (`docs/guide/roles.md`).

    Args:
        n: Rollouts per task (the group size).
        rewrites: Rewrites sampled per imperfect group.
        gamma: Shaping constant of the off-policy term, a probability.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
        judge: Who decides which criteria are met: `policy`, a model or a run's folder, or the address of a server on
            this machine; empty: the world.
        way: How a model judges: by the probabilities of `options`, or by a `written` verdict.
    """
    asked, roles = criteria_judge(judge, way)
    return Method(
        rollout=Refine(n=n, tries=rewrites, judge=asked),
        reward=(Rubric(),),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where="rollout.plain", over="all"),
            Shaped(gamma, where="rollout.guided", over="all"),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided"), ReportMean("rollout.perfect")),
        roles=roles,
    )
