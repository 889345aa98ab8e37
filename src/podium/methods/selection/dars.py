"""DARS: difficulty-adaptive rollout sampling, depth and breadth."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.strategies import SecondWave

__all__ = ["dars"]


@recipe(
    summary="Difficulty-adaptive rollouts: hard tasks get more until their advantage mass matches medium ones.",
    citation="DARS: Depth-Breadth Synergy in RLVR, https://github.com/yangzhch6/DARS",
    tags=("rollout budget", "difficulty", "exploration", "pass@k"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B and 1.5B; Llama-3.1-8B",
        lr=5e-6,
        tasks=3072,
        iterations=86,
        max_tokens=3072,
        source="yangzhch6/DARS experiments/DARS-7B-ET-Breadth.sh; HW: the preset hardness",
    ),
    home=Home("sums", level=3),
    presets={
        "paper": {"max_length": 3072},
        "hardness": {"schedule": "hardness", "most": 64},
        "depth": {"epochs": 1, "mini_batches": 4},
    },
)
def dars(
    n: int = 8,
    most: int = 32,
    schedule: str = "equal",
    std: bool = False,
    epochs: int = 2,
    mini_batches: int = 1,
    max_length: Count = ShareOfTokens(1.0),
    clip: float = 0.2,
    entropy: float = 0.001,
) -> Method:
    """n rollouts of accuracy p; where p < 1/2, ⌈(M* − n S)/S⌉ more, up to `most` in all, with S = 2 p (1 − p) the
    advantage mass of a rollout and M* that of n at p = 1/2 (`hardness`: 2 (1 − p) M*). No success counts as half a one.
    A = r − mean of the merged group; groups all right or all wrong are dropped; two epochs over the whole batch at
    once, the sum over tokens over a constant length. No KL penalty.

    most = n is Dr. GRPO with zero-variance groups dropped. `dars@depth` trains small mini-batches once instead. The
    mean over rollouts is left out of the loss, as in the release, whose verl adds an entropy bonus of 0.001 that the
    paper does not name.

    Args:
        n: Rollouts per task in the first wave.
        most: Rollouts per task in both waves at most.
        schedule: `equal` (hard tasks get the same mass as medium ones) or `hardness` (harder ones get more).
        std: Divide advantages by the group's std; then S = 2 √(p (1 − p)).
        epochs: Passes over each batch.
        mini_batches: Optimiser steps per batch.
        max_length: The constant by which the token sum is divided; by default `max_tokens`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        entropy: Coefficient of the entropy bonus; 0: none.
    """
    aggregate = Aggregate("token sum / length", length=max_length)
    return Method(
        rollout=SecondWave(n=n, most=max(most, n), schedule=schedule, std=std),
        keep=(KeepMixed(top_up=False),),
        advantage=Normalize(scale="std" if std else "none", singleton="raw_if_all"),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), aggregate=aggregate),
            *((Entropy(coefficient=entropy),) if entropy else ()),
        ),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
    )
