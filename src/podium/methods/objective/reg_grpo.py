"""TODO"""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import TaskDifficulty
from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, RolloutRegression
from podium.strategies import Augmented, Sample

__all__ = ["reg_grpo"]


@recipe(
    summary="Regress the standardised log-ratio of each rollout on its standardised reward: no clip, no minimum.",
    citation="DeepVideo-R1: Difficulty-aware Regressive GRPO, https://github.com/mlvlab/DeepVideoR1",
    presets={"plain": {"augment": False}},
)
def reg_grpo(
    n: int = 8,
    augment: bool = True,
    window: int = 16,
    kl: float = 0.04,
    epsilon: float = 1e-4,
    scale: float | None = None,
    epochs: int = 1,
    mini_batches: int = 1,
) -> Method:
    """rho_i = Σ_t (log π − log π_old); (A_i − (rho_i − mean rho)/(std rho + epsilon))², A_i the standardised reward of
    the group; mean over rollouts; k3 to the reference is added. The std of rho is held fixed: on-policy it is 0 and has
    no gradient. Groups in which all rewards are equal are left out.

    On-policy the first gradient is divided by epsilon alone: it is large, and rests on the clipped gradient norm; a
    number as `scale` stands in for std rho + epsilon instead. The loss is 0 for rho any increasing affine function of
    the rewards, so nothing but the KL and the few updates bound a step.

    With `augment`, a task whose mean reward at its last visit was d below that of the last `window` iterations is shown
    the first share d of a solution's lines, one that was above it a question with that share of its words masked.
    `reg-grpo@plain` does without.
    """
    term = RolloutRegression(
        1.0 if scale is None else scale,
        "sum",
        centre="mean",
        scale="held" if scale is None else "none",
        epsilon=epsilon,
    )
    method = Method(
        rollout=Augmented(n=n) if augment else Sample(n=n),
        memories=(TaskDifficulty(window),) if augment else (),
        advantage=Normalize(epsilon=epsilon, singleton="zero"),
        objective=(term,),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
    )
    return anchored(method, KL("k3", coefficient=kl))
