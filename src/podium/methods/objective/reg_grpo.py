"""Reg-GRPO (DeepVideo-R1): difficulty-aware regressive GRPO."""

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
    summary="Regresses the log-ratio on the advantage instead of clipping; hints or perturbs by difficulty.",
    citation="DeepVideo-R1: Difficulty-aware Regressive GRPO, https://github.com/mlvlab/DeepVideoR1",
    tags=("regression", "difficulty", "hints", "multimodal", "zero-variance groups"),
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
    the group; mean over rollouts; k3 to the reference is added. The std of rho is detached: on-policy it is 0 and has
    no gradient. Groups in which all rewards are equal are left out.

    On-policy the first gradient is divided by epsilon alone: it is large, and relies on gradient clipping. The loss is
    0 for rho any increasing affine function of the rewards, so only the KL penalty and the small number of updates
    bound a step.

    With `augment`, a task whose mean reward at its last visit was d below that of the last `window` iterations is shown
    the first share d of a solution's lines; one that was above it gets a question with that share of its words masked.
    `reg-grpo@plain` does without.

    Args:
        n: Rollouts per task (the group size).
        augment: Hint hard tasks and perturb easy ones.
        window: Iterations over which the usual reward is averaged.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        scale: A number in place of std rho + epsilon; None: the std.
        epochs: Passes over each batch.
        mini_batches: Optimiser steps per batch.
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
