"""ROVER: random policy valuation for reasoning."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import BellmanRegression
from podium.strategies import Draw, Sample

__all__ = ["rover"]


MATH = Protocol(
    model="Qwen3-8B-Base",
    lr=1e-6,
    betas=(0.9, 0.999),
    weight_decay=0.01,
    warmup=0,
    schedule="constant",
    clip=1.0,
    tasks=128,
    iterations=600,
    max_tokens=8192,
    source="tinnerhrhe/ROVER Math/scripts/deepscaler/train/rover_qwen3_8b.sh",
)
COUNTDOWN = MATH.replace(
    model="Qwen2.5-3B",
    iterations=None,
    max_tokens=1024,
    source="tinnerhrhe/ROVER Countdown/scripts/train_rover.sh",
)


@recipe(
    summary="Fits the Q-function of the uniform random policy in one Bellman regression, the log-ratio as Q.",
    citation="ROVER: Random Policy Valuation is Enough for LLM Reasoning, https://github.com/tinnerhrhe/ROVER",
    tags=("regression", "value function", "exploration"),
    protocol=MATH,
    home=Home("sums", level=2),
    presets={
        "paper": {"scale": "std"},
        "math": {"scale": "std"},
        "countdown": {"n": 5, "temperature": 1.0, "protocol": COUNTDOWN, "home": Home("countdown", level=1)},
    },
)
def rover(
    n: int = 8,
    rho: float = 1.0,
    beta: float = 1.0,
    clip: float | None = None,
    scale: str = "none",
    temperature: float = 0.6,
    mini_batches: int = 4,
) -> Method:
    """q_t = rho · (log π − log π_old); the target r − mean of the group + beta · rho · (mu − mu_old) of the next state,
    mu the mean of log π over the vocabulary; token mean of (q − target)². No clip, KL penalty, critic or reference.

    At the first mini-batch q and mu − mu_old are 0 and the gradient is twice REINFORCE's with the centred reward: Dr.
    GRPO's direction. Equal rewards leave a pull towards the old policy.

    Args:
        n: Rollouts per task (the group size).
        rho: Temperature of the Q-function.
        beta: Weight of the next state's value.
        clip: Log-ratios are clipped to log(1 ± clip) in the target; None: no clip.
        scale: `std` divides the centred reward by the group's std, as the released math script does; `none` does not.
        temperature: Sampling temperature.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        advantage=Normalize(scale=scale),
        objective=(BellmanRegression(rho, beta, clip),),
        updates=Updates(mini_batches=mini_batches),
    )
