"""What the recipes of this family share."""

from __future__ import annotations

from podium.core.part import Advantage
from podium.method import Method, Role
from podium.methods._shared import anchored
from podium.parts.advantage import Mixture, MixtureComponent
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["verl_agent", "step_credit"]


def verl_agent(advantage: Advantage, n: int, clip: float, kl: float) -> Method:
    """PPO's clipped surrogate with a KL penalty to the reference, as in the verl-agent recipes."""
    method = Method(rollout=Sample(n=n), advantage=advantage, objective=(PolicyGradient(clip=Clip(clip, clip)),))
    return anchored(method, KL("k3", coefficient=kl))


def step_credit(n: int, *comparisons: MixtureComponent, high: float = 0.2, kl: float = 0.0) -> Method:
    """PPO's clipped surrogate on the sum of step-level `comparisons`; a KL penalty to the reference where `kl` > 0."""
    method = Method(
        rollout=Sample(n=n),
        advantage=Mixture(comparisons),
        objective=(PolicyGradient(clip=Clip(0.2, high)),),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")
