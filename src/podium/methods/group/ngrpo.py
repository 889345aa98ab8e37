"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import DropSolved
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["ngrpo"]


@recipe(
    summary="Each group is compared with a virtual success, so that groups of failures still teach.",
    citation="NGRPO: Negative-enhanced Group Relative Policy Optimization, https://github.com/nangongrui-ngr/NGRPO",
)
def ngrpo(
    n: int = 8,
    virtual: int = 1,
    max_reward: float = 1.0,
    clip_low: float = 0.16,
    clip_high: float = 0.24,
    max_rounds: int = 10,
) -> Method:
    """GRPO's advantage with mean and std over the group and `virtual` rollouts of the highest reward; groups all of
    whose rollouts have it are dropped and sampled for again, surplus groups train in the next batch; clip 0.16/0.24,
    token mean, no KL.

    A group of n failures gets −1/√(n + 1) each. virtual = 0 is GRPO's advantage.
    """
    return Method(
        rollout=Sample(n=n),
        keep=(DropSolved(highest=max_reward, max_rounds=max_rounds),),
        advantage=Normalize(virtual=virtual, virtual_value=max_reward),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
    )
