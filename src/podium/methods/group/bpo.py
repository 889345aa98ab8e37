"""BPO: bounded-ratio policy optimisation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, PolicyGradient, Target
from podium.parts.shape import AlternativeAdvantage
from podium.strategies import Sample

__all__ = ["bpo"]


@recipe(
    summary="Replaces PPO's clip by regressing the importance ratio to a bounded target, which corrects overshooting.",
    citation="Bounded Ratio Reinforcement Learning, https://github.com/bounded-ratio-rl/bounded_ratio_rl",
    tags=("trust region", "clipping", "importance sampling", "regression"),
    protocol=Protocol(
        model="Qwen2.5-Math-1.5B",
        lr=5e-7,
        betas=(0.9, 0.999),
        weight_decay=0.01,
        warmup=0.03,
        schedule="cosine",
        clip=1.0,
        tasks=32,
        iterations=150,
        max_tokens=3072,
        source="bounded-ratio-rl/bounded_ratio_rl ttrl/Qwen2.5-Math/math.sh",
    ),
    home=Home("countdown", level=1, tasks=32),
    presets={
        "paper": {"n": 32},
        "mean": {"threshold": "mean", "kl": 0.0},
        "aime": {"eps": 0.3, "epochs": 10, "mini_batches": 4},
    },
)
def bpo(
    n: int = 8,
    eps: float = 0.2,
    width: float = 1e-4,
    floor: float = 0.0,
    threshold: str = "median",
    scale: str = "std",
    kl: float = 0.001,
    epochs: int = 5,
    mini_batches: int = 32,
) -> Method:
    """(|A| + floor) · |r − r*|, r* = 1 + eps · tanh(Ã / (2·width)), detached; token mean, k3 to the reference. A is
    GRPO's advantage; Ã the reward minus the group's median, over the group's std; with `threshold="mean"` it is A.

    On-policy the gradient is that of PPO and REINFORCE, −A. width → 0 is the target 1 ± eps by the sign of Ã, width → ∞
    no update. With the median and binary rewards the more frequent outcome has Ã = 0: its rollouts are held where they
    are. A mini-batch is one group, and every batch is passed over five times. The authors train on votes without
    labels, 64 rollouts that vote of which 32 are trained (`ttrl`); here the world's reward is used. `bpo@mean` is the
    simpler form, which performed alike in the paper's ablation.

    Args:
        n: Rollouts per task (the group size).
        eps: Largest distance of the target ratio from 1.
        width: Width of the transition between 1 − eps and 1 + eps, in units of Ã.
        floor: Weight that every token has in addition to |A|.
        threshold: What a rollout must beat to go up: the group's `mean` or `median`.
        scale: `std` divides the gap to the median by the group's std, `none` does not.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        epochs: Passes over each batch.
        mini_batches: Optimiser steps per pass.
    """
    if threshold not in ("mean", "median"):
        raise PodiumError(f"bpo: threshold = {threshold!r} is not 'mean' or 'median'.")
    median = threshold == "median"
    target = Target(eps, eps, width=width, floor=floor, side="advantage.median" if median else "advantage")
    by_median = AlternativeAdvantage(Normalize(centre="median", scale=scale, singleton="zero"), "median")
    method = Method(
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(by_median,) if median else (),
        objective=(PolicyGradient(clip=target),),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
    )
    return anchored(method, KL("k3", coefficient=kl))
