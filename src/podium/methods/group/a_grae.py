"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import ProgressFocus
from podium.strategies import Sample

__all__ = ["a_grae"]


@recipe(
    summary="Easy tasks first and hard ones as rewards rise; rewarded answers are damped while the policy is weak.",
    citation="A-GRAE: Unveiling Implicit Advantage Symmetry, https://github.com/Yu7-code/A-GRAE",
    presets={
        "geometry": {"alpha": 0.5},
        "dr-grpo": {"scale": "none"},
        "symmetric": {"easy": "sqrt(1 - p)"},
        "release": {"singleton": "raw"},
    },
)
def a_grae(
    n: int = 8,
    alpha: float = 1.0,
    easy: str = "1 - sqrt p",
    scale: str = "std",
    singleton: str = "zero",
    clip: float = 0.2,
    dual: float = 3.0,
) -> Method:
    """With p the mean reward of a group and P the mean of p over groups: A = GRPO's;
    A ← (1 − P) · A/(2(1 − √p + ε)) + P · A/(2(√p + ε)); A ← A · min(1, P/alpha) where A > 0.

    Rewards lie in [0, 1]. The released easy focus divides by 1 − √p; `a-grae@symmetric` by √(1 − p), which the paper's
    analysis suggests. The release takes 0 for the mean of a group of one, whose advantage becomes huge
    (`a-grae@release`); here it gets none. With `shape.ProgressFocus.focus=false` and alpha = 0 it is GRPO.
    """
    lonely = "zero" if singleton == "raw" else "mean"
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale=scale, singleton=singleton),
        shape=(ProgressFocus(alpha=alpha, easy=easy, singleton=lonely),),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
    )
