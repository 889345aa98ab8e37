"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.term import Term
from podium.core.updates import Updates
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.objective import GroupSoftmax, RolloutLogistic
from podium.strategies import Draw, Sample

__all__ = ["real"]


@recipe(
    summary="Rewards as labels: each group is a classification of its rollouts by their mean log-ratio.",
    citation="REAL: Rewards as Labels, https://github.com/Red-RL/REAL",
)
def real(
    n: int = 8, tau: float = 0.5, variant: str = "softmax", temperature: float = 0.6, mini_batches: int = 4
) -> Method:
    """s_k = mean token log-ratio of rollout k; per group with both classes
    log(1 + Σ_right e^{−s/τ}) + log(1 + Σ_wrong e^{s/τ}), over the number of all groups. No advantage, clip or KL.

    Variants: `bce` (cross-entropy of each rollout of such groups), `product` (the classes against each other only).
    The gradient in s is bounded by 1/τ and largest where a rollout is still on the wrong side; GRPO's grows like e^s.
    """
    terms: dict[str, Term] = {
        "softmax": GroupSoftmax(tau),
        "product": GroupSoftmax(tau, anchor=False),
        "bce": RolloutLogistic(tau),
    }
    if variant not in terms:
        raise PodiumError(f"real: variant = {variant!r} is not one of {', '.join(terms)}.")
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        objective=(terms[variant],),
        updates=Updates(mini_batches=mini_batches),
    )
