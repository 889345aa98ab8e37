"""TODO shared"""

from __future__ import annotations

from podium.core.part import Advantage
from podium.method import Method, Role
from podium.methods._shared import anchored
from podium.parts.advantage import Mixture, MixtureComponent
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["verl_agent", "step_credit"]


def verl_agent(advantage: Advantage, n: int, clip: float, kl: float) -> Method:
    """A clipped surrogate with an anchor, as in the verl-agent recipes."""
    method = Method(rollout=Sample(n=n), advantage=advantage, objective=(PolicyGradient(clip=Clip(clip, clip)),))
    return anchored(method, KL("k3", coefficient=kl))


def step_credit(n: int, *comparisons: MixtureComponent, high: float = 0.2, kl: float = 0.0) -> Method:
    """A clipped surrogate on the tokens of each step, with an anchor where `kl` is above 0."""
    method = Method(
        rollout=Sample(n=n),
        advantage=Mixture(comparisons),
        objective=(PolicyGradient(clip=Clip(0.2, high)),),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")
