"""SEELE: capability-adaptive hint scaffolding."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import HintRates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, Likelihood, PolicyGradient
from podium.strategies import HintRounds, ItemResponse

__all__ = ["seele"]


@recipe(
    summary="Capability-adaptive hints: shows as much of the solution as should give a 50% success rate.",
    citation="Li et al. 2025, SEELE: Staying in the Sweet Spot, https://arxiv.org/abs/2509.06923",
    tags=("hints", "difficulty", "curriculum", "imitation", "rollout budget"),
    protocol=Protocol(
        model="Qwen2.5-3B",
        tasks=256,
        iterations=400,
        max_tokens=2048,
        pool=22_000,
        source="arXiv 2509.06923, sections 5.1 and 5.3, appendices B and E (learning rate and clip are not stated)",
    ),
    home=Home("sums", level=3, tasks=8),
)
def seele(
    n: int = 8,
    rounds: int = 4,
    target: float = 0.5,
    imitation: float = 0.001,
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 4,
    style: str = "short",
) -> Method:
    """After each round f(p) = b + (1 − b)/(1 + e^{−k (p + mu)}) is fitted to how often the task was solved after the
    share p of its solution, and the next round shows f⁻¹(target) of it; the last prediction starts the next visit. A =
    r − mean over all rounds; PPO's clip on the sampled tokens; −imitation · log π of the longest hint; k3 with 0.001.

    A task solved without a hint gets none. rounds = 1 with nothing shown is Dr. GRPO. Where the paper writes the hint's
    probability, this takes its logarithm, a mean over tokens.

    Args:
        n: Rollouts per task and round.
        rounds: Rounds per visit of a task.
        target: Success rate that the next hint should give.
        imitation: Coefficient of the likelihood of the longest hint.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
        style: Which of the world's solutions to take, by its style (`short`, …).
    """
    method = Method(
        rollout=HintRounds(n=n, rounds=rounds, response=ItemResponse(target), style=style),
        advantage=Normalize(scale="none", singleton="zero"),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where="rollout.sampled"),
            Likelihood(where="rollout.demonstration", coefficient=imitation),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided"),),
        memories=(HintRates(),),
    )
    return anchored(method, KL("k3", coefficient=kl))
