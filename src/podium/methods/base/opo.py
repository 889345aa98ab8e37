"""TODO"""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.strategies import Sample

__all__ = ["opo"]


@recipe(
    summary="The variance-minimising baseline: the length-weighted mean reward of the group, exactly on-policy.",
    citation="Hao et al. 2025, On-Policy RL with Optimal reward baseline, https://arxiv.org/abs/2505.23585",
)
def opo(n: int = 8) -> Method:
    """A_i = r_i − Σ_j n_j r_j / Σ_j n_j over the group, n the number of action tokens; no KL, no entropy bonus, one
    optimiser step a batch.

    Equal lengths give Dr. GRPO's advantage.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale="none", weight="rollout.length"),
        objective=(PolicyGradient(),),
        updates=Updates(epochs=1, mini_batches=1),
    )
