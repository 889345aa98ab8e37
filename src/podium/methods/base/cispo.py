"""CISPO (MiniMax-M1): clip the importance weight instead of the update."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["cispo"]


@recipe(
    summary="Clips and detaches the importance weight instead of the update, so every token keeps its gradient.",
    citation="MiniMax 2025, MiniMax-M1, https://arxiv.org/abs/2506.13585",
    tags=("importance sampling", "clipping", "off-policy", "token-level"),
    presets={"paper": {}, "verl": {"clip_low": 0.2, "clip_high": 0.2}, "trl": {"clip_high": 4.0}},
)
def cispo(n: int = 8, clip_low: float = 1.0, clip_high: float = 0.28) -> Method:
    """w = clip(ratio, 1 − clip_low, 1 + clip_high), detached; loss = −w · A · log π, averaged over all tokens; GRPO's
    advantage, no KL penalty.

    On-policy it is REINFORCE with GRPO's advantage. The paper tunes the upper bound and sets no lower one, which is
    clip_low = 1. TRL names the largest weight itself: its `epsilon_high=5` is `clip_high=4` here (`Clip.capped(5)`).

    Args:
        n: Rollouts per task (the group size).
        clip_low: The weight is at least 1 − clip_low; 1: no lower bound.
        clip_high: The weight is at most 1 + clip_high.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, kind="weight")),),
    )
