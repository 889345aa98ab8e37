"""TODO"""

from __future__ import annotations

from podium.memories import BetaBeliefs
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.select import Thompson
from podium.strategies import Sample

__all__ = ["vade"]


@recipe(
    summary="Tasks are chosen by a draw from what is believed of their success: most variance first.",
    citation="VADE: Variance-Aware Dynamic Sampling via Online Sample-Level Difficulty Estimation",
)
def vade(n: int = 8, decay: float = 0.5, decay_rest: float = 0.99, uniform: float = 0.0, clip: float = 0.2) -> Method:
    """Each task has a Beta(a, b) belief; θ is drawn from it and the tasks of the highest θ (1 − θ) are sampled. Then
    a ← 1 + 0.5 (a − 1) + successes where a task was sampled, a ← 1 + 0.99 (a − 1) elsewhere; b likewise with failures.
    The update is GRPO's, without KL.

    Score and decay are this reading of the abstract; the authors' code has not been seen. With both decays 1 it is
    Thompson sampling of a policy that does not move; uniform = 1 draws tasks at random.
    """
    return Method(
        select=Thompson(uniform=uniform),
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(BetaBeliefs(decay=decay, decay_rest=decay_rest),),
    )
