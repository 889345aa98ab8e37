"""RAPO: forward KL to a reward-aware reference."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.methods.entropy._shared import SEQUENCE_MEAN
from podium.parts.advantage import Normalize
from podium.parts.annotate import ReferencePower
from podium.parts.objective import KL, Clip, Entropy, PolicyGradient
from podium.strategies import Sample

__all__ = ["rapo_forward_kl"]


@recipe(
    summary="Forward-KL penalty to a reference that is flattened where rewards are low, to widen exploration.",
    citation="RAPO: Unlocking Reasoning Capabilities in LLMs via RL Exploration, 2025",
    tags=("exploration", "kl penalty", "entropy", "pass@k"),
    protocol=Protocol(model="Qwen2.5-7B", max_turns=1, source="abstract of arXiv 2510.03865"),
    home=Home("sums", level=2),
)
def rapo_forward_kl(
    n: int = 8,
    low: float = 0.5,
    high: float = 1.0,
    kl: float = 0.05,
    entropy: float = 0.0,
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """PPO's clip with GRPO's advantage + kl · (w ln w − w + 1) with w = π̂/π and π̂ = softmax(φ(r) · reference logits),
    φ linear from `low` at reward 0 to `high` at reward 1; − entropy · H; means over tokens, then over rollouts.

    kl = entropy = 0 is GRPO; low = high = 1 the plain forward KL; φ = 0 pulls towards the uniform distribution. The
    weights, the form of φ and the 4 updates per batch are ours: the paper's are not known.

    Args:
        n: Rollouts per task (the group size).
        low: Power φ of the reference at reward 0.
        high: Power φ of the reference at reward 1.
        kl: Coefficient of the forward KL penalty; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        annotate=(ReferencePower(low, high),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=SEQUENCE_MEAN),),
        updates=Updates(mini_batches=mini_batches),
    )
    method = method if entropy == 0 else method | Entropy(coefficient=entropy, aggregate=SEQUENCE_MEAN)
    anchor = KL("forward", power="rollout.power", clamp=10.0, coefficient=kl, aggregate=SEQUENCE_MEAN)
    return anchored(method, anchor)
