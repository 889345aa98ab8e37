"""OPSD: on-policy self-distillation with privileged context."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.objective import Distil
from podium.strategies import Draw, Sample

__all__ = ["opsd"]


@recipe(
    summary="The policy teaches itself: the teacher is the same model with the solution in its prompt.",
    citation="Zhao et al. 2026, Self-Distilled Reasoner: On-Policy Self-Distillation, https://arxiv.org/abs/2601.18734",
    tags=("self-distillation", "distillation", "privileged information", "on-policy", "teacher"),
    protocol=Protocol(
        model="Qwen/Qwen3-1.7B with LoRA of rank 64",
        lr=2e-4,
        tasks=32,
        max_tokens=2048,
        max_turns=1,
        source="siyan-zhao/OPSD, scripts/run_opsd_1b.sh",
    ),
    home=Home(level=2),
    presets={"paper": {"temperature": 1.1, "top_p": 0.95, "top_k": 20}, "ema": {"decay": 0.999}, "top": {"k": 100}},
)
def opsd(
    n: int = 1,
    divergence: str = "js",
    mix: float = 0.5,
    k: int | None = None,
    decay: float | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    mini_batches: int = 1,
) -> Method:
    """Σ_t D(π(· | x, y_<t), q(· | x, solution, y_<t)) on the student's own rollouts, with D the Jensen-Shannon
    divergence over the whole vocabulary, averaged over all tokens; q is the policy as it was at the start, whose prompt
    also holds the world's solution. The world's rewards are only reported.

    The student learns to write without the solution what the model would write with it. A solution that changes nothing
    teaches nothing. `opsd@ema` lets the teacher follow the policy slowly; `opsd@top` compares the teacher's 100
    likeliest tokens, and all others as one. `sdpo` shows a right rollout of the group instead.

    Args:
        n: Rollouts per task.
        divergence: `js`, `forward` KL(q ‖ π) or `reverse` KL(π ‖ q).
        mix: The teacher's share in the mixture of `js`.
        k: Likeliest tokens of the teacher that are compared one by one; None: the whole vocabulary.
        decay: Of the teacher as a moving average of the policy, per update; None: it stays as it was at the start.
        temperature: Sampling temperature.
        top_p: Probability mass of the likeliest tokens that is sampled from.
        top_k: Likeliest tokens that are sampled from; 0: all.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature, top_p=top_p, top_k=top_k)),
        objective=(Distil(k, divergence=divergence, mix=mix),),
        updates=Updates(mini_batches=mini_batches),
        roles=(Role("teacher", decay=decay, context="turn.solution.context"),),
    )
