"""RuleReasoner (DADS): domain-aware dynamic sampling."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.memories import DomainRewards, PassRates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.select import ByDomain
from podium.strategies import Draw, Sample

__all__ = ["rulereasoner"]


@recipe(
    summary="Domain-aware dynamic sampling: domains far below their target reward fill more of the batch.",
    citation="RuleReasoner: Reinforced Rule-based Reasoning via Domain-aware Dynamic Sampling",
    tags=("curriculum", "data selection", "dynamic sampling"),
    protocol=ADAMW.replace(
        model="Qwen3-8B-Base and 4B",
        lr=1e-6,
        tasks=64,
        max_tokens=2048,
        source="bigai-nlco/RuleReasoner scripts/train/train_mix.sh",
    ),
    home=Home("rules", level=1, tasks=32),
    presets={
        "paper": {"every": 8},
        "ewma": {"variant": "ewma"},
        "yaml": {"temperature": 0.8, "size": 8, "every": 16},
        "release": {"forget": True, "least": 0},
    },
)
def rulereasoner(
    n: int = 64,
    variant: str = "buffer",
    temperature: float = 0.3,
    size: int = 4,
    every: Count = ShareOfRun(0.1),
    least: int = 1,
    start: str = "uniform",
    forget: bool = False,
    clip: float = 0.2,
    mini_batches: int = 1,
) -> Method:
    """v_d = max(0, target − r̄_d), r̄_d the domain's mean reward over the last `size` batches, discounted by their age;
    a batch of B tasks has ⌊B · softmax(v / 0.3)_d⌋ of domain d, the rest go to the highest weights. Weights are updated
    every 8 iterations, or every tenth of the run. GRPO, sampling temperature 0.8, no KL penalty.

    temperature → ∞ samples all domains equally; with a single domain it is GRPO. `rulereasoner@ewma` tracks a moving
    average instead of a buffer, as the paper's text has it. The release empties its buffer after every iteration, so
    that a domain above 52 % counts as solved, and lets domains starve: `rulereasoner@release`. The constant that it
    adds to v cancels. A batch is trained in one step, at which the importance ratio is 1 and nothing can be clipped.

    Args:
        n: Rollouts per task (the group size).
        variant: How rewards are tracked: `buffer` or `ewma`.
        temperature: Temperature of the softmax over domains.
        size: Batches in the buffer.
        every: Iterations between two updates of the weights; by default a tenth of the run.
        least: Tasks that every domain has in each batch.
        start: Weights at the start: `uniform`, or by the domain's number of tasks `root` (1/√size) or `exponential`
            (e^(1/√size)).
        forget: Empty the buffer after every iteration, as in the release.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip], where there are several mini-batches.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        select=ByDomain(temperature=temperature, least=least, start=start),
        rollout=Sample(n=n, draw=Draw(temperature=0.8)),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip) if mini_batches > 1 else None),),
        updates=Updates(mini_batches=mini_batches),
        memories=(DomainRewards(variant=variant, size=size, every=every, forget=forget), PassRates()),
    )
