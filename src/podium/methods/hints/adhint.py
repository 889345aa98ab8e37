"""ADHint: adaptive hints with difficulty priors."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import BySetting, HintConsistency
from podium.strategies import HintPrefix

__all__ = ["adhint"]


@recipe(
    summary="Adaptive hints: solution prefixes as long as the task is hard, with difficulty-aware credit.",
    citation="ADHint: Adaptive Hints with Difficulty Priors for Reinforcement Learning",
    tags=("hints", "difficulty", "demonstrations", "entropy", "credit assignment", "off-policy"),
    protocol=Protocol(source="arXiv 2512.13095: the pages that we could read give no numbers of the run"),
    home=Home("sums", level=2),
)
def adhint(
    n: int = 4,
    hinted: int = 4,
    least: float = 0.1,
    most: float = 0.9,
    noise: float = 0.05,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    mini_batches: int = 4,
    style: str = "short",
) -> Method:
    """n rollouts, then `hinted` rollouts that begin with the share (most − least) · (1 − mean reward) + least + noise
    of a solution's tokens. GRPO's advantage over both; a success counts 2 D / (D_N + D_H) times, D = 1 − mean reward of
    its half, a failure likewise with 1 − D. A hint token weighs e^{−|H − H̄| / H̄}, H the entropy there, H̄ that of the
    continuation, and nothing in a rollout of negative advantage. PPO's clip, with the policy's old probabilities for
    hint tokens too.

    A task solved by all n is trained as in GRPO, and so are advantages where both halves are equally hard. The forms of
    the weights follow a description of the paper; the four steps per batch are ours, so that ratios leave 1.

    Args:
        n: Rollouts per task without a hint.
        hinted: Rollouts per task that begin with a hint.
        least: Share of the solution shown for the easiest tasks.
        most: Share of the solution shown for the hardest tasks.
        noise: Standard deviation of the noise on that share.
        epsilon: Added to every divisor.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
        style: Which of the world's solutions to take, by its style (`short`, …).
    """
    return Method(
        rollout=HintPrefix(n=n, hinted=hinted, least=least, most=most, noise=noise, style=style),
        advantage=Normalize(epsilon=epsilon),
        shape=(BySetting(epsilon), HintConsistency(epsilon)),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.hinted"),),
    )
