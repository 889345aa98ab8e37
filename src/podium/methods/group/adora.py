"""ADORA: dynamic advantage estimation by the length of right and wrong answers."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, Entropy, PolicyGradient
from podium.parts.shape import LengthGate
from podium.strategies import Sample

__all__ = ["adora"]


ADORA = {
    "llm": {"without_correct": "damp", "without_wrong": "pass"},
    "vlm": {"without_correct": "pass", "without_wrong": "damp"},
}


@recipe(
    summary="Down-weights groups whose longest correct answer is no longer than the average wrong one.",
    citation="ADORA, https://github.com/ShadeCloak/ADORA",
    tags=("length bias", "advantage estimation", "data selection", "group-relative"),
    protocol=ADAMW.replace(
        model="Qwen2.5-7B",
        lr=3e-7,
        tasks=64,
        iterations=350,
        max_tokens=2048,
        source="ShadeCloak/ADORA ADORA/ADORA.sh",
    ),
    home=Home("sums", level=2),
    presets={
        "paper": {"max_length": 3900},
        "logic-rl": {"correct_above": 1.01, "max_length": 3900},
        "vlm": {
            "n": 8,
            "variant": "vlm",
            "entropy": 0.0,
            "mini_batches": 8,
            "protocol": Protocol(
                model="Qwen2.5-VL-7B-Instruct",
                lr=1e-6,
                betas=(0.9, 0.95),
                weight_decay=0.01,
                warmup=0,
                schedule="cosine",
                final=0.1,
                clip=1.0,
                tasks=128,
                max_tokens=4096,
                source="ShadeCloak/ADORA ADORA_VL/examples/scripts/qwen25vl_7b_geo3k_adora.sh",
            ),
        },
    },
)
def adora(
    n: int = 16,
    variant: str = "llm",
    damp: float = 0.1,
    correct_above: float = 0.5,
    max_length: Count = ShareOfTokens(1.0),
    kl: float = 0.001,
    entropy: float = 0.001,
    mini_batches: int = 2,
) -> Method:
    """GRPO's advantage × 1 if the longest correct rollout is longer than the mean of the wrong ones (those shorter than
    `max_length`), else × damp. PPO's clip, token mean, k3 to the reference and an entropy bonus.

    damp = 1 is GRPO. The forks differ where one side is missing: `llm` damps groups without correct rollouts, `vlm`
    those without wrong ones. The release calls a reward above 1.01 correct, since its rewards reach 3:
    `adora@logic-rl`. Its script leaves out wrong answers from 3900 tokens on and samples at most 2048, so that
    truncated ones count there (`adora@paper`); the fork for images leaves out truncated ones (4094 of 4096), as by
    default here.

    Args:
        n: Rollouts per task (the group size).
        variant: Which fork's rule: `llm` or `vlm`.
        damp: Factor on the advantages of groups that fail the test.
        correct_above: Reward above which a rollout is correct.
        max_length: Wrong answers of at least this many tokens are left out of their mean length.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus; 0: none.
        mini_batches: Optimiser steps per batch.
    """
    if variant not in ADORA:
        raise PodiumError(f"adora: variant = {variant!r} is not one of {', '.join(ADORA)}.")
    gate = LengthGate(damp=damp, correct_above=correct_above, max_length=max_length, **ADORA[variant])
    method = Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(gate,),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2)), *((Entropy(coefficient=entropy),) if entropy else ())),
        updates=Updates(mini_batches=mini_batches),
    )
    return anchored(method, KL("k3", coefficient=kl))
