"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["cispo"]


@recipe(
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
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, kind="weight")),),
    )
