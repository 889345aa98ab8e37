"""Scaf-GRPO: scaffolded group relative policy optimisation."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.methods.hints._shared import _from
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import HintTiers, Repair

__all__ = ["scaf_grpo"]


@recipe(
    summary="Scaffolding: one rollout of a failed group is replaced by the success with the least tiered hints.",
    citation="Scaf-GRPO: Scaffolded Group Relative Policy Optimization, https://github.com/dvlab-research/Scaf-GRPO",
    tags=("hints", "zero-variance groups", "curriculum", "difficulty"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.0,
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=256,
        max_tokens=2048,
        source="dvlab-research/Scaf-GRPO sh/hint_mix_grpo/bs256_6k_mix.sh",
    ),
    home=Home("sums", level=3),
    presets={"paper": {"tiers": ("knowledge", "planning", "solution"), "after": 50}},
)
def scaf_grpo(
    n: int = 8,
    after: Count = ShareOfRun(0.15),
    tiers: tuple[str, ...] = ("knowledge", "solution"),
    pieces: int = 4,
    scaffold: str = "kept",
    epsilon: float = 1e-6,
    clip: float = 0.2,
    dual: float | None = 3.0,
    mini_batches: int = 4,
    style: str = "short",
) -> Method:
    """After `after` iterations: where all rewards are 0, one rollout is sampled for each level of help (the first piece
    of a tier, its first two, …, tier after tier), and the success at the lowest level replaces the first rollout.
    GRPO's advantage on the new group, no KL penalty. If no level succeeds nothing changes.

    Before that, and in a group with a success, it is GRPO. `after` is the paper's share of the training, 50 iterations
    in the script (`scaf-grpo@paper`). The release leaves the tier `planning` out
    (`scaf-grpo@paper` has it). Tasks without stored hints get the lines of a solution as pieces of its tier.

    Args:
        n: Rollouts per task (the group size).
        after: Iterations without guidance at the start.
        tiers: Kinds of hints, from abstract to concrete.
        pieces: Pieces into which the hints of a tier are cut.
        scaffold: The prompt the success is trained under: hint `kept`, `removed`, or `both`, which replaces two
            rollouts.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        mini_batches: Optimiser steps per batch.
        style: Which of the world's solutions to take, by its style (`short`, …).
    """
    repair = Repair(
        n=n,
        help=HintTiers(tiers, pieces, style=style),
        tries=1,
        search="at once",
        take="rows",
        scaffold=scaffold,
        active=_from(after),
    )
    return Method(
        rollout=repair,
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided"),),
    )
