"""COPO: consistency-aware policy optimisation."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import ConsistencyBlend
from podium.strategies import Sample

__all__ = ["copo"]


@recipe(
    summary="Where a group's answers agree (zero advantage), compares the task with the rest of the batch instead.",
    citation="COPO: Consistency-Aware Policy Optimization, https://github.com/hijih/copo-code",
    tags=("zero-variance groups", "self-consistency", "advantage estimation", "entropy"),
    presets={"log2": {"base": 2.0}},
)
def copo(
    n: int = 6,
    gamma: float = 20.0,
    rho: float = 1.5,
    base: float = 2.718281828459045,
    blend: str = "losses",
    clip: float = 0.2,
) -> Method:
    """loss = w · L(A) + (1 − w) · L(A_global): A is GRPO's, A_global is the group's mean reward standardised over the
    groups, w = sigmoid(gamma · (H − rho)) with H the entropy of the group's answers; both losses use PPO's clip on the
    same importance ratio.

    With gamma · (H − rho) → ∞ it is GRPO, with → −∞ REINFORCE on tasks. The paper does not give the logarithm's base:
    `copo@log2`.

    Args:
        n: Rollouts per task (the group size).
        gamma: Steepness of the switch from the global to the local advantage.
        rho: Answer entropy at which both weigh the same.
        base: Base of the logarithm in H; the default is e.
        blend: `losses` sums two losses; `advantages` mixes the advantages in one, which is the same where their signs
            agree.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    clipped = PolicyGradient(clip=Clip(clip, clip))
    terms = (clipped, clipped.replace(advantage="advantage.global")) if blend == "losses" else (clipped,)
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(ConsistencyBlend(gamma, rho, base=base, blend=blend),),
        objective=terms,
    )
