"""Reg-GRPO (DeepVideo-R1): difficulty-aware regressive GRPO."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import RightTexts, TaskDifficulty
from podium.method import Home, Method, Protocol
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
    protocol=Protocol(model="Qwen2.5-VL-7B", iterations=2000, source="arXiv 2506.07464, appendix C.1"),
    home=Home("sums", level=2),
    presets={"plain": {"augment": False}, "solutions": {"hints": "solution"}},
)
def reg_grpo(
    n: int = 8,
    augment: bool = True,
    hints: str = "rollout",
    window: int = 6,
    kl: float = 0.1,
    epsilon: float = 1e-4,
    scale: float | None = None,
    epochs: int = 1,
    mini_batches: int = 4,
) -> Method:
    """rho_i = Σ_t (log π − log π_old); (A_i − (rho_i − mean rho)/(std rho + epsilon))², A_i the standardised reward of
    the group; mean over rollouts; k3 to the reference is added. The std of rho is detached: on-policy it is 0 and has
    no gradient. Groups in which all rewards are equal are left out.

    On-policy the first gradient is divided by epsilon alone: it is large, and relies on gradient clipping. The loss is
    0 for rho any increasing affine function of the rewards, so only the KL penalty and the small number of updates
    bound a step.

    With `augment`, a task whose mean reward at its last visit was d below that of the last `window` iterations is shown
    the first share d of the lines of a right answer that the policy has given to it; one that was above it gets a
    question with that share of its words masked, where the paper adds noise to the frames of a video. So tasks must
    come back. `reg-grpo@solutions` shows the world's solution instead, `reg-grpo@plain` does without. The paper's usual
    reward is that of the last 100 samples, which are 6 iterations of 16 tasks; its optimiser steps per batch are not
    known.

    Args:
        n: Rollouts per task (the group size).
        augment: Hint hard tasks and perturb easy ones.
        hints: What a hint is taken from: a right `rollout` of the task, or the world's `solution`.
        window: Iterations over which the usual reward is averaged.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        scale: A number in place of std rho + epsilon; None: the std.
        epochs: Passes over each batch.
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    term = RolloutRegression(
        1.0 if scale is None else scale,
        "sum",
        centre="mean",
        scale="held" if scale is None else "none",
        epsilon=epsilon,
    )
    own = augment and hints == "rollout"
    method = Method(
        rollout=Augmented(n=n, source=hints) if augment else Sample(n=n),
        memories=(*((TaskDifficulty(window),) if augment else ()), *((RightTexts(),) if own else ())),
        advantage=Normalize(epsilon=epsilon, singleton="zero"),
        objective=(term,),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
    )
    return anchored(method, KL("k3", coefficient=kl))
