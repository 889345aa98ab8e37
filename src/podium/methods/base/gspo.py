"""TODO"""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["gspo"]


@recipe(
    summary="Ratio and clip of the whole answer: the geometric mean of its token ratios.",
    citation="Zheng et al. 2025, Group Sequence Policy Optimization, https://arxiv.org/abs/2507.18071",
)
def gspo(n: int = 8, clip_low: float = 3e-4, clip_high: float = 4e-4) -> Method:
    """s_i = exp(mean over tokens of log π − log π_old); −min(s_i A_i, clip(s_i, 1 − 3e-4, 1 + 4e-4) A_i), mean over
    rollouts; GRPO's advantage, no KL.

    An answer is clipped as a whole. With equal token log-ratios it is GRPO's token ratio.
    """
    clip = Clip(clip_low, clip_high)
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(ratio="sequence", clip=clip, aggregate=Aggregate("token mean, rollout mean")),),
    )
