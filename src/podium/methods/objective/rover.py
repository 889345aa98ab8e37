"""TODO"""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import BellmanRegression
from podium.strategies import Draw, Sample

__all__ = ["rover"]


@recipe(
    summary="The policy's log-ratio is the Q function of acting at random, fitted with one Bellman regression.",
    citation="ROVER: Random Policy Valuation is Enough for LLM Reasoning, https://github.com/tinnerhrhe/ROVER",
    presets={"countdown": {"n": 5, "temperature": 1.0}, "math": {"scale": "std"}},
)
def rover(
    n: int = 8,
    rho: float = 1.0,
    beta: float = 1.0,
    clip: float | None = None,
    scale: str = "none",
    temperature: float = 0.6,
    mini_batches: int = 4,
) -> Method:
    """q_t = rho · (log π − log π_old); the target r − mean of the group + beta · rho · (mu − mu_old) of the next state,
    mu the mean of log π over the vocabulary; token mean of (q − target)². No clip, KL, critic or reference.

    `scale="std"` divides the centred reward by the group's std, as the released math script does (`rover@math`).
    At the first mini-batch q and mu − mu_old are 0 and the gradient is twice REINFORCE's with the centred reward: Dr.
    GRPO's direction. Equal rewards leave a pull towards the old policy.
    """
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        advantage=Normalize(scale=scale),
        objective=(BellmanRegression(rho, beta, clip),),
        updates=Updates(mini_batches=mini_batches),
    )
