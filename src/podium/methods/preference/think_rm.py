"""Think-RM: pairwise RLHF with generative reward models that reason."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import PairwiseDifferences
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["think_rm"]


@recipe(
    summary="Pairwise RLHF: advantages straight from a reasoning judge's pairwise preferences, no pointwise reward.",
    citation="Hong et al. 2025, Think-RM, https://github.com/IlgeeHong/Think-RM",
    tags=("preference", "reward model", "group-relative", "kl penalty"),
)
def think_rm(n: int = 4, clip: float = 0.2, kl: float = 1e-4, epsilon: float = 1e-6) -> Method:
    """A_i = (1/G) Σ_j d_ij / sqrt(Σ d² / (2G(G − 1)) + 1e-6) with d_ij the judge's difference r_i − r_j.

    If d_ij = r_i − r_j for some scores it is GRPO, with epsilon inside the root.

    Args:
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference.
        epsilon: Added under the root.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=PairwiseDifferences(epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)), KL("k3", coefficient=kl)),
        updates=Updates(mini_batches=4),
        roles=(Role("ref"),),
    )
