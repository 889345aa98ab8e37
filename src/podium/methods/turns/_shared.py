"""What the recipes of this family share."""

from __future__ import annotations

from podium.core.part import Advantage, Reward
from podium.core.updates import Updates
from podium.method import Method, Role
from podium.methods._shared import anchored
from podium.parts.advantage import Mixture, MixtureComponent
from podium.parts.objective import KL, Clip, Entropy, PolicyGradient
from podium.parts.reward import TurnPenalties
from podium.strategies import Draw, Sample

__all__ = ["PENALTY", "penalties", "step_credit", "verl_agent"]

PENALTY = "step.reward.penalty"


def penalties(invalid: float, overlong: float = 0.0) -> tuple[tuple[Reward, ...], str | None]:
    """The reward part that charges for invalid and overlong turns, and the column that comparisons subtract."""
    charged = invalid > 0 or overlong > 0
    return ((TurnPenalties(invalid, overlong),) if charged else ()), PENALTY if charged else None


def verl_agent(
    advantage: Advantage,
    n: int,
    *,
    clip: float,
    kl: float,
    entropy: float,
    mini_batches: int,
    max_turns: int | None = None,
    reward: tuple[Reward, ...] = (),
) -> Method:
    """PPO's clipped surrogate (dual clip 3) with a KL penalty to the reference and an entropy bonus, in mini-batches of
    rollouts, as in the verl-agent recipes."""
    gradient = PolicyGradient(clip=Clip(clip, clip, dual=3.0))
    method = Method(
        rollout=Sample(n=n, draw=Draw(max_turns=max_turns)),
        reward=reward,
        advantage=advantage,
        objective=(gradient, Entropy(coefficient=entropy)) if entropy else (gradient,),
        updates=Updates(mini_batches=mini_batches, unit="rollout"),
    )
    return anchored(method, KL("k3", coefficient=kl))


def step_credit(
    n: int,
    *comparisons: MixtureComponent,
    high: float = 0.2,
    dual: float | None = None,
    kl: float = 0.0,
    mini_batches: int = 1,
) -> Method:
    """PPO's clipped surrogate on the sum of step-level `comparisons`; a KL penalty to the reference where `kl` > 0."""
    method = Method(
        rollout=Sample(n=n),
        advantage=Mixture(comparisons),
        objective=(PolicyGradient(clip=Clip(0.2, high, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")
