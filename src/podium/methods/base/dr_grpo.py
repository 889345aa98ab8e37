"""Dr. GRPO: GRPO without its length and difficulty biases."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Number
from podium.core.shares import ShareOfTokens
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["dr_grpo"]


@recipe(
    summary="GRPO without its two biases: no division by the group's std (difficulty) or answer length (length bias).",
    citation="Liu et al. 2025, Understanding R1-Zero-like training, https://arxiv.org/abs/2503.20783",
    tags=("length bias", "difficulty", "group-relative", "baseline"),
    protocol=Protocol(
        model="Qwen/Qwen2.5-Math-7B",
        lr=1e-6,
        betas=(0.9, 0.95),
        weight_decay=0.0,
        schedule="constant",
        clip=1.0,
        tasks=128,
        max_tokens=3000,
        max_turns=1,
        pool=8000,
        source="sail-sg/understand-r1-zero, examples/qwen2.5-math-7b.sh; sail-sg/oat, oat/args.py",
    ),
    home=Home(level=2),
    presets={"paper": {"max_length": 3000}, "trl": {"mini_batches": 1}},
)
def dr_grpo(
    n: int = 8,
    clip: float = 0.2,
    max_length: Number = ShareOfTokens(1.0),
    over_rollouts: str = "mean",
    mini_batches: int = 8,
) -> Method:
    """A_i = r_i − mean; loss = (1/B) Σ_i (1/L) Σ_t l with a constant L (the maximum length), where B counts empty
    answers too; 8 updates per batch.

    Times G/(G − 1) it is RLOO's advantage; with `advantage.scale=std` and GRPO's aggregation it is GRPO.
    `dr-grpo@trl` is `loss_type="dr_grpo"` with `scale_rewards="none"` in TRL (1.9), which makes one update per batch.

    Args:
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        max_length: The constant L by which the token sum of a rollout is divided: the run's limit of tokens, or a
            number (3,000 in the paper).
        over_rollouts: `mean` divides by the number of rollouts B; `sum` does not, as in older versions of verl.
        mini_batches: Optimiser steps per batch.
    """
    if over_rollouts not in ("mean", "sum"):
        raise PodiumError(f"dr-grpo: over_rollouts = {over_rollouts!r} is not 'mean' or 'sum'.")
    over = "mean of all" if over_rollouts == "mean" else "sum"
    aggregate = Aggregate(f"token sum / length, rollout {over}", length=max_length)
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale="none"),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=aggregate),),
        updates=Updates(mini_batches=mini_batches),
    )
