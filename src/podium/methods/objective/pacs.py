"""PACS: implicit actor-critic coupling by supervised learning."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.objective import RolloutLogistic
from podium.strategies import Sample

__all__ = ["pacs"]


CENTRES = {"rloo": ("leave_one_out", "none"), "grpo": ("mean", "std"), "naive": ("none", "none")}


@recipe(
    summary="RLVR as supervised learning: predicts the outcome from the log-ratio, actor and critic in one.",
    citation="PACS: Implicit Actor Critic Coupling via a Supervised Learning Framework, https://github.com/ritzz-ai/PACS",
    tags=("classification", "critic", "group-relative", "sequence-level"),
    protocol=Protocol(
        model="Qwen2.5-7B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.01,
        warmup=0,
        schedule="constant",
        clip=0,
        tasks=1024,
        iterations=300,
        max_tokens=4096,
        source="ritzz-ai/PACS scripts/pacs/pacs_beta_1.0.sh, src/pacs/pacs_actor.py",
    ),
    home=Home("sums", level=2),
    presets={"beta-2": {"beta": 2.0}},
)
def pacs(
    n: int = 8,
    beta: float = 1.0,
    estimator: str = "rloo",
    weights: str = "balanced",
    score: str = "log_ratio",
    mini_batches: int = 4,
) -> Method:
    """r_i = beta · Σ_t (log π − log π_old); psi_i = r_i − mean of the others' r (`rloo`), standardised in the group
    (`grpo`, with the gradient through mean and std) or r_i itself (`naive`); the loss is the mean over all rollouts of
    w_i · cross-entropy(sigmoid(psi_i), reward), w balancing the classes of each group that has both. No clip, no KL
    penalty.

    The release measures the gradient norm and does not clip it. At psi = 0 the gradient is that of RLOO with balanced
    classes; a rollout that is already predicted has none.

    Args:
        n: Rollouts per task (the group size).
        beta: Scale of the log-ratio.
        estimator: How r is centred in the group: `rloo`, `grpo` or `naive`.
        weights: Class weights: `balanced`, `equal`, or `right` or `wrong` for one class alone.
        score: `log_ratio`, or `logp` for r_i = beta · mean log π.
        mini_batches: Optimiser steps per batch.
    """
    if estimator not in CENTRES or score not in ("log_ratio", "logp"):
        raise PodiumError(
            f"pacs: estimator = {estimator!r} is one of {', '.join(CENTRES)}; score = {score!r} is log_ratio or logp."
        )
    centre, scale = CENTRES[estimator]
    term = RolloutLogistic(1 / beta, "sum", "old", centre, scale, groups="all", weights=weights)
    if score == "logp":
        term = term.replace(score="mean", against=None)
    return Method(rollout=Sample(n=n), objective=(term,), updates=Updates(mini_batches=mini_batches))
