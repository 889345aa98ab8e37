"""TODO"""

from __future__ import annotations

from podium.memories import HintRates
from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, Likelihood, PolicyGradient
from podium.strategies import HintRounds, ItemResponse

__all__ = ["seele"]


@recipe(
    summary="Rounds of rollouts after so much of a solution that about half of them should succeed.",
    citation="Li et al. 2025, SEELE: Staying in the Sweet Spot, https://arxiv.org/abs/2509.06923",
)
def seele(
    n: int = 8,
    rounds: int = 4,
    target: float = 0.5,
    imitation: float = 0.001,
    clip: float = 0.2,
    kl: float = 0.001,
    style: str = "short",
) -> Method:
    """After each round f(p) = b + (1 − b)/(1 + e^{−k (p + mu)}) is fitted to how often the task was solved after the
    share p of its solution, and the next round shows f⁻¹(target) of it; the last prediction starts the next visit.
    A = r − mean over all rounds; PPO's clip on what was written; −imitation · log π of the longest hint; k3 with 0.001.

    A task solved without a hint is asked without one. rounds = 1 with nothing shown is Dr. GRPO. Where the paper writes
    the hint's probability, this has its logarithm, a mean over tokens.
    """
    method = Method(
        rollout=HintRounds(n=n, rounds=rounds, response=ItemResponse(target), style=style),
        advantage=Normalize(scale="none", singleton="zero"),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where="rollout.sampled"),
            Likelihood(where="rollout.demonstration", coefficient=imitation),
        ),
        metric=(ReportMean("rollout.guided"),),
        memories=(HintRates(),),
    )
    return anchored(method, KL("k3", coefficient=kl))
