"""DRPO: decoupled reward policy optimisation for efficient reasoning."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.objective import GroupContrast, StayWithin
from podium.strategies import Draw, Sample

__all__ = ["drpo"]


SMALL = Protocol(
    model="DeepSeek-R1-Distill-Qwen-1.5B",
    lr=2e-6,
    betas=(0.9, 0.999),
    weight_decay=0.01,
    warmup=0,
    schedule="constant",
    clip=1.0,
    tasks=128,
    iterations=1002,
    max_tokens=8192,
    source="Optimization-AI/DRPO scripts/train/run_drpo_1.5b_8k.sh",
)


@recipe(
    summary="Efficient reasoning: contrasts right with wrong answers; length only reweights the right ones.",
    citation="DRPO: Efficient Reasoning via Decoupled Reward Policy Optimization, https://github.com/Optimization-AI/DRPO",
    tags=("short reasoning", "overthinking", "length penalty", "classification", "efficiency"),
    protocol=SMALL,
    home=Home("sums", level=2),
    presets={
        "paper": {"max_length": 8192},
        "7b": {
            "protocol": SMALL.replace(
                model="DeepSeek-R1-Distill-Qwen-7B",
                lr=1e-6,
                source="Optimization-AI/DRPO scripts/train/run_drpo_7b_8k.sh",
            )
        },
    },
)
def drpo(
    n: int = 8,
    length_temperature: float = 0.1,
    tau: float = 10.0,
    max_length: Count = ShareOfTokens(1.0),
    delta: float = 1e-4,
    beta: float = 1e3,
    estimator: str = "k1",
    temperature: float = 0.6,
    mini_batches: int = 4,
    shown: str = "constant",
) -> Method:
    """s_i = mean log π of rollout i; per group with both classes −Σ_right w_i s_i + τ log Σ_wrong e^{s_j/τ}, with w ∝
    exp((1 − n_i/max_length)/length_temperature) summing to 1, over the number of all groups; plus a constraint with the
    gradient of beta/2 · max(K − delta, 0)², K the mean distance to the old policy. No advantage, clip or reference.

    length_temperature → ∞ weighs all right answers the same. Groups of one class only count in the divisor.

    Args:
        n: Rollouts per task (the group size).
        length_temperature: How little length counts among right answers.
        tau: Temperature τ of the log-sum-exp over wrong answers.
        max_length: Length limit in tokens, by default that of the run.
        delta: Distance to the old policy that is free.
        beta: Strength of the constraint beyond it.
        estimator: Estimator of the distance to the old policy: `k1` or `k3`.
        temperature: Sampling temperature.
        mini_batches: Optimiser steps per batch.
        shown: Reported value of the wrong answers' part: `constant` (τ, as released; same gradient) or `value`.
    """
    contrast = GroupContrast(tau, max_length=max_length, length_temperature=length_temperature, shown=shown)
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        objective=(contrast, StayWithin(delta, beta, estimator)),
        updates=Updates(mini_batches=mini_batches),
    )
