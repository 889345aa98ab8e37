"""Flow-GRPO: group-relative policy gradients for flow models, whose deterministic sampler becomes a stochastic one."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.networks._flows import DRAWING, SD35, flow_method
from podium.parts.advantage import Normalize
from podium.strategies import DrawPictures

__all__ = ["flow_grpo"]


@recipe(
    summary="GRPO for flow models: each stochastic step of a picture is an action with a Gaussian log-probability.",
    citation="Liu et al. 2025, Flow-GRPO: Training Flow Matching Models via Online RL, https://arxiv.org/abs/2505.05470",
    tags=("flow matching", "image generation", "group-relative", "baseline"),
    presets={"paper": {"clip": 1e-4}},
    protocol=SD35,
    home=DRAWING,
)
def flow_grpo(n: int = 24, clip: float = 3e-3, kl: float = 0.004, mini_batches: int = 2) -> Method:
    """A = (r − mean of the group) / (std of the batch + 1e-4), within ±5, on every stochastic step; PPO's clip on the
    ratio of each step, whose log-probability is the mean over pixels; KL to the reference, exact for Gaussian steps.

    A mean over pixels makes ratios tiny, so that the clip range is. The release has 1e-4 for latents of 65,536
    numbers; such a mean varies with their square root, which gives 3e-3 for 64 pixels. The release divides the KL by
    the variance of a step of length 1: its 0.04 is 0.004 of the exact KL of ten steps.

    Args:
        n: Pictures per task (the group size).
        clip: Clip range of the ratio of a step.
        kl: Coefficient of the KL penalty to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    return flow_method(
        clip,
        kl,
        mini_batches,
        rollout=DrawPictures(n),
        advantage=Normalize(epsilon=1e-4, unbiased=False, scope=(), limit=5.0),
    )
