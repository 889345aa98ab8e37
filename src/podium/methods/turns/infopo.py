"""TODO"""

from __future__ import annotations

from podium.core.schedule import Exponential, Number
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import GatedGain
from podium.parts.annotate import FeedbackGain
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["infopo"]


@recipe(
    summary="Where outcomes are alike, a turn earns how much its feedback changed what the agent did next.",
    citation="Information-Driven Policy Optimization for User-Centric Agents, https://github.com/kfq20/InfoPO",
    presets={"raw": {"gains": "raw"}, "intrinsic": {"outcome": False}},
)
def infopo(
    n: int = 8,
    weight: float = 0.1,
    decay: float = 0.0,
    tau: float = 0.05,
    cap: float = 1.0,
    gains: str = "normalized",
    outcome: bool = True,
    clip: float = 0.2,
) -> Method:
    """A = A_out + weight · e^{−decay · iteration} · g · m · A_int: the z-score of the outcome, and that of the gains a
    token, gated by g = sigmoid(−std/tau) with the std of the group's outcomes, held to the outcome's size by m. The
    gain of a turn is the mean of log π(next action | feedback) − log π(next action | placeholder).

    weight = 0 is GRPO. `infopo@raw` leaves gains as they are, `infopo@intrinsic` trains on them alone.
    """
    beta: Number = Exponential(weight, decay) if decay else weight
    return Method(
        rollout=Sample(n=n),
        annotate=(FeedbackGain(),),
        advantage=GatedGain(beta, tau, cap, gains, outcome),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )
