"""OPO: on-policy reinforcement learning with the optimal reward baseline."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.strategies import Sample

__all__ = ["opo"]


@recipe(
    summary="Variance-minimising baseline: the length-weighted mean reward of the group, trained exactly on-policy.",
    citation="Hao et al. 2025, On-Policy RL with Optimal reward baseline, https://arxiv.org/abs/2505.23585",
    tags=("variance reduction", "baseline", "on-policy", "group-relative"),
    protocol=Protocol(
        max_turns=1,
        source="microsoft/LMOps, opo/README.md: one update per batch, no KL penalty; the rest is left open",
    ),
    home=Home(level=2),
)
def opo(n: int = 8) -> Method:
    """A_i = r_i − Σ_j n_j r_j / Σ_j n_j over the group, n the number of action tokens; no KL penalty, no entropy bonus,
    one optimiser step per batch.

    Equal lengths give Dr. GRPO's advantage.

    Args:
        n: Rollouts per task (the group size).
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale="none", weight="rollout.length"),
        objective=(PolicyGradient(),),
        updates=Updates(epochs=1, mini_batches=1),
    )
