"""SRPO: sample routing between group-relative and self-distillation policy optimisation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods._shared import clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import RouteToTeacher
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Distil, PolicyGradient
from podium.parts.shape import SamplerCorrection, TeacherCertainty
from podium.strategies import Sample

__all__ = ["srpo"]


@recipe(
    summary="Routes rollouts: RL on correct ones, self-distillation of wrong ones to a teacher shown a right sibling.",
    citation="SRPO: Unifying Group-Relative and Self-Distillation Policy Optimization via Sample Routing",
    tags=("self-distillation", "distillation", "teacher", "entropy", "importance sampling"),
    protocol=Protocol(
        model="Qwen3-8B",
        lr=5e-6,
        weight_decay=0.01,
        warmup=10,
        clip=1.0,
        tasks=32,
        max_tokens=8192,
        max_turns=1,
        source="arXiv 2604.02288, appendix B, tables 3 and 4",
    ),
    home=Home("sums", level=2),
)
def srpo(
    n: int = 8,
    beta: float = 1.0,
    rate: float = 0.05,
    k: int = 100,
    std: bool = False,
    epsilon: float = 1e-6,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    cap: float = 2.0,
    mini_batches: int = 1,
    teacher: str = "",
) -> Method:
    """A wrong rollout of a group with a right one is distilled: w · JS(π ‖ teacher), the teacher being a moving average
    of the policy whose prompt also holds that right solution, and w = e^{−beta·H} by its entropy, with mean 1. All
    others are reinforced with A = r − mean (over the std with `std`). One sum, divided by all trained tokens of both
    branches; importance weights to the sampler, at most `cap`.

    Where no group has both right and wrong rollouts it is GRPO with a token mean; beta = 0 weighs all tokens the same.
    A batch is trained in one step, as published, in which there is nothing to clip.

    Args:
        n: Rollouts per task (the group size).
        beta: How steeply a token's distillation weight falls with the teacher's entropy.
        rate: Update rate of the teacher's moving average.
        k: Likeliest tokens of the teacher that are distilled one by one; the rest is one bucket.
        std: Divide advantages by the group's std.
        epsilon: Added to the standard deviation.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        cap: Largest importance weight between sampler and trainer.
        mini_batches: Optimiser steps per batch.
        teacher: The teacher: a path to a model with the policy's tokenizer; empty: a moving average of the policy.
    """
    privileged = "turn.sibling.context"
    average = Role("teacher", decay=1 - rate, context=privileged)
    return Method(
        rollout=Sample(n=n),
        keep=(RouteToTeacher(),),
        advantage=Normalize(scale="std" if std else "none", epsilon=epsilon, singleton="zero"),
        shape=(TeacherCertainty(beta), SamplerCorrection(cap=cap)),
        objective=(
            PolicyGradient(clip=clip_for(mini_batches, clip_low, clip_high), where="rollout.reinforced", over="all"),
            Distil(k, where="rollout.distilled", over="all"),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.distilled"),),
        roles=(Role("teacher", source=teacher, context=privileged) if teacher else average,),
    )
