"""A-GRAE: asymmetric group-relative advantage estimation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.parts.shape import ProgressFocus
from podium.strategies import Sample

__all__ = ["a_grae"]


@recipe(
    summary="Breaks GRPO's advantage symmetry: an implicit easy-to-hard curriculum, positives damped early on.",
    citation="A-GRAE: Unveiling Implicit Advantage Symmetry, https://github.com/Yu7-code/A-GRAE",
    tags=("curriculum", "difficulty", "exploration", "advantage estimation", "negative samples"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        tasks=1024,
        iterations=140,
        max_tokens=3072,
        source="Yu7-code/A-GRAE run_qwen2.5-math-7b-grpo-agrae.sh",
    ),
    home=Home("sums", level=2),
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
    entropy: float = 0.001,
    mini_batches: int = 4,
) -> Method:
    """With p the mean reward of a group and P the mean of p over groups: A = GRPO's; A ← (1 − P) · A/(2(1 − √p + ε)) +
    P · A/(2(√p + ε)); A ← A · min(1, P/alpha) where A > 0. PPO's clip, token mean, an entropy bonus, no KL penalty.

    Rewards lie in [0, 1]. With `shape.ProgressFocus.focus=false` and alpha = 0 it is GRPO. The released focus on easy
    tasks divides by 1 − √p; `a-grae@symmetric` by √(1 − p), which the paper's analysis suggests. The release takes 0
    for the mean of a group of one, whose advantage becomes huge (`a-grae@release`); here such a group gets no
    advantage. The entropy bonus is the default of the release's trainer, which its scripts leave on.

    Args:
        n: Rollouts per task (the group size).
        alpha: Batch mean reward from which positive advantages are no longer damped; 0: never damped.
        easy: What the focus on easy tasks divides by: `1 - sqrt p` or `sqrt(1 - p)`.
        scale: `std` divides the advantage by the group's std, `none` does not.
        singleton: Advantage of a group of one: `zero`, or `raw` as released.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        entropy: Coefficient of the entropy bonus; 0: none.
        mini_batches: Optimiser steps per batch.
    """
    mean_of_singleton = "zero" if singleton == "raw" else "mean"
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale=scale, singleton=singleton),
        shape=(ProgressFocus(alpha=alpha, easy=easy, singleton=mean_of_singleton),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip, dual=dual)),
            *((Entropy(coefficient=entropy),) if entropy else ()),
        ),
        updates=Updates(mini_batches=mini_batches),
    )
