"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import ConsistencyBlend
from podium.strategies import Sample

__all__ = ["copo"]


@recipe(
    summary="Where the answers to a task agree, the task is compared with the others of the batch instead.",
    citation="COPO: Consistency-Aware Policy Optimization, https://github.com/hijih/copo-code",
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
    """loss = w · L(A) + (1 − w) · L(A_global): A is GRPO's, A_global = the group's mean reward standardised over the
    groups, w = sigmoid(gamma · (H − rho)) with H the entropy of the group's answers; both PPO clips share the ratio.

    `blend="advantages"` mixes the advantages in one term instead, which is the same where their signs agree. With gamma
    · (H − rho) → ∞ it is GRPO, → −∞ REINFORCE on tasks. The paper does not say the logarithm's base: `copo@log2`.
    """
    clipped = PolicyGradient(clip=Clip(clip, clip))
    terms = (clipped, clipped.replace(advantage="advantage.global")) if blend == "losses" else (clipped,)
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(ConsistencyBlend(gamma, rho, base=base, blend=blend),),
        objective=terms,
    )
