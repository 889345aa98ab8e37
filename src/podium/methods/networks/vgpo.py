"""VGPO: values of a flow's steps, compared in the group and anchored to their absolute size."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.networks._flows import DRAWING, SD35, flow_method
from podium.parts.advantage import ValueAnchored
from podium.strategies import DrawPictures

__all__ = ["vgpo"]


@recipe(
    summary="Flow-GRPO with a value for each step, and an absolute term that stays where the rewards of a group agree.",
    citation="Shao et al., VGPO: Anchoring Values in Temporal and Group Dimensions for Flow Matching Model Alignment, "
    "https://arxiv.org/abs/2512.12387",
    tags=("flow matching", "image generation", "credit assignment", "process reward"),
    presets={"paper": {"clip": 1e-4}, "relative": {"k": 0.0}},
    protocol=SD35,
    home=DRAWING,
    extends="flow-grpo",
)
def vgpo(
    n: int = 24,
    gamma: float = 0.9,
    k: float = 0.1,
    absolute_steps: int = 5,
    clip: float = 3e-3,
    kl: float = 0.004,
    mini_batches: int = 2,
    epsilon: float = 1e-4,
) -> Method:
    """After every step the picture that the velocity points to is scored: R_t, at the end the reward itself. With Q_t =
    Σ_{j ≥ t} gamma^{j−t} R_j and ω_t = Q_t over its mean in the picture, A_t = ω_t · ((Q_t − mean) / (std + 1e-4) +
    k · Q_t): mean and std over the group at the same step, k on the first `absolute_steps` of the steps.

    Where all pictures of a group score alike, A = ω · k · Q instead of 0; `vgpo@relative` has k = 0. Rewards must not
    be negative. The authors' code was not to be had: gamma, k and epsilon are ours, and where the terms stand follows
    from the limit that the paper states for equal rewards.

    Args:
        n: Pictures per task (the group size).
        gamma: Discount factor of the scores of later steps.
        k: Weight of the absolute value.
        absolute_steps: How many of the first steps have the absolute term.
        clip: Clip range of the ratio of a step.
        kl: Coefficient of the KL penalty to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
        epsilon: Added to the standard deviation.
    """
    return flow_method(
        clip,
        kl,
        mini_batches,
        rollout=DrawPictures(n, scored="estimate"),
        advantage=ValueAnchored(gamma, k, absolute_steps, epsilon),
    )
