"""LUSPO: length-unbiased sequence policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["luspo"]


@recipe(
    summary="GSPO with each sequence's loss times its length, which removes GSPO's length bias.",
    citation="Length-Unbiased Sequence Policy Optimization (LUSPO); as in https://github.com/huggingface/trl",
    extends="gspo",
    tags=("length bias", "sequence-level", "importance sampling"),
    protocol=Protocol(
        model="Qwen2.5-7B",
        source="murphy4122/LUSPO README; huggingface/trl docs/source/paper_index.md",
    ),
    home=Home("sums", level=2),
    presets={"normalized": {"normalized": True}},
)
def luspo(
    n: int = 8,
    clip_low: float = 2e-3,
    clip_high: float = 2.5e-3,
    normalized: bool = False,
    mini_batches: int = 4,
) -> Method:
    """s_i = exp(mean over tokens of log π − log π_old); loss = (1/B) Σ_i n_i · (−min(s_i A_i, clip(s_i) A_i)) over all
    B rollouts, empty ones included; GRPO's advantage, no KL penalty. A token's gradient is −A_i s_i / B, whatever n_i
    is.

    With answers of one length L it is L times GSPO. The loss grows with the length of the answers. With token-level
    ratios it would be a different method. The number of optimiser steps per batch is not known.

    Args:
        n: Rollouts per task (the group size).
        clip_low: Lower clip of the sequence ratio, 1 − clip_low.
        clip_high: Upper clip of the sequence ratio, 1 + clip_high.
        normalized: Divide the loss by the mean length of the answers, which is the token mean.
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    path = "token mean" if normalized else "token sum, rollout mean of all"
    surrogate = PolicyGradient(ratio="sequence", clip=Clip(clip_low, clip_high), aggregate=Aggregate(path))
    updates = Updates(mini_batches=mini_batches)
    return Method(rollout=Sample(n=n), advantage=Normalize(), objective=(surrogate,), updates=updates)
