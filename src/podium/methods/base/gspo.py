"""GSPO: group sequence policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["gspo"]


@recipe(
    summary="One importance ratio and clip per sequence: the geometric mean of the token ratios.",
    citation="Zheng et al. 2025, Group Sequence Policy Optimization, https://arxiv.org/abs/2507.18071",
    tags=("importance sampling", "sequence-level", "clipping", "group-relative"),
)
def gspo(n: int = 8, clip_low: float = 3e-4, clip_high: float = 4e-4) -> Method:
    """s_i = exp(mean over tokens of log π − log π_old); −min(s_i A_i, clip(s_i, 1 − 3e-4, 1 + 4e-4) A_i), mean over
    rollouts; GRPO's advantage, no KL penalty.

    An answer is clipped as a whole. Where all token log-ratios are equal, it is GRPO's token ratio.

    Args:
        n: Rollouts per task (the group size).
        clip_low: Lower clip of the sequence ratio, 1 − clip_low.
        clip_high: Upper clip of the sequence ratio, 1 + clip_high.
    """
    clip = Clip(clip_low, clip_high)
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(ratio="sequence", clip=clip, aggregate=Aggregate("token mean, rollout mean")),),
    )
