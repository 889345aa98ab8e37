"""REAL: rewards as labels."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.term import Term
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.objective import GroupSoftmax, RolloutLogistic
from podium.strategies import Draw, Sample

__all__ = ["real"]


@recipe(
    summary="Rewards as labels: a group softmax classification of rollouts with bounded gradient weights.",
    citation="REAL: Rewards as Labels, https://github.com/Red-RL/REAL",
    tags=("classification", "group-relative", "sequence-level", "stability"),
    protocol=ADAMW.replace(
        model="DeepSeek-R1-Distill-Qwen-1.5B",
        lr=2e-6,
        tasks=128,
        max_tokens=8192,
        source="Red-RL/REAL scripts/train/1.5b_real.sh",
    ),
    home=Home("sums", level=3),
    presets={"bce": {"variant": "bce"}},
)
def real(
    n: int = 8, tau: float = 0.5, variant: str = "softmax", temperature: float = 0.6, mini_batches: int = 4
) -> Method:
    """s_k = mean token log-ratio of rollout k; per group with both classes log(1 + Σ_right e^{−s/τ}) + log(1 + Σ_wrong
    e^{s/τ}), over the number of all groups. No advantage, clip or KL penalty.

    The gradient in s is bounded by 1/τ and largest where a rollout is still on the wrong side; GRPO's grows like e^s.

    Args:
        n: Rollouts per task (the group size).
        tau: Temperature τ of the logits.
        variant: `softmax`, `bce` (cross-entropy of each rollout of such groups) or `product` (the classes against each
            other only).
        temperature: Sampling temperature.
        mini_batches: Optimiser steps per batch.
    """
    terms: dict[str, Term] = {
        "softmax": GroupSoftmax(tau),
        "product": GroupSoftmax(tau, anchor=False),
        "bce": RolloutLogistic(tau),
    }
    if variant not in terms:
        raise PodiumError(f"real: variant = {variant!r} is not one of {', '.join(terms)}.")
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        objective=(terms[variant],),
        updates=Updates(mini_batches=mini_batches),
    )
