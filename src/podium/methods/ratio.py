"""GRPO with another ratio or another clip."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.method import Method
from podium.methods.catalogue import recipe
from podium.objective import Aggregate, Clip, PolicyGradient
from podium.rollout import Sample

__all__ = ["cispo", "gspo"]


@recipe(
    "gspo",
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
        "gspo",
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(ratio="sequence", clip=clip, aggregate=Aggregate("token mean, rollout mean")),),
    )


@recipe(
    "cispo",
    summary="Clip the importance weight instead of the update, so that no token loses its gradient.",
    citation="MiniMax 2025, MiniMax-M1, https://arxiv.org/abs/2506.13585",
    presets={"paper": {}, "verl": {"clip_low": 0.2, "clip_high": 0.2}, "trl": {"clip_high": 4.0}},
)
def cispo(n: int = 8, clip_low: float = 1.0, clip_high: float = 0.28) -> Method:
    """w = clip(ratio, 1 − clip_low, 1 + clip_high) as a constant; loss = −w · A · log π, mean over all tokens;
    GRPO's advantage, no KL. clip_low = 1 is no lower bound, as in the paper, which tunes the upper one.

    TRL names the largest weight itself: its `epsilon_high=5` is `clip_high=4` here (`Clip.capped(5)`).
    On-policy it is REINFORCE with GRPO's advantage.
    """
    return Method(
        "cispo",
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, kind="weight")),),
    )
