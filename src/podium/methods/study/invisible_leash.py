"""The invisible leash: whether training reaches new answers or only sharpens old ones."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.parts.metric.entropies import EntropyPair

__all__ = ["invisible_leash"]


@recipe(
    summary="Does RLVR expand or shrink the support? Reports token entropy against answer entropy.",
    citation="Wu et al. 2025, The Invisible Leash: Why RLVR May Not Escape Its Origin, https://arxiv.org/abs/2507.14843",
    tags=("entropy", "exploration", "pass@k"),
    kind="metric",
    run="podium lab invisible-leash",
    protocol=Protocol(source="a study of released checkpoints, with no training of its own"),
    home=Home("sums", level=2),
)
def invisible_leash(n: int = 8, clip: float = 0.2, kl: float = 0.0, mini_batches: int = 4) -> Method:
    """GRPO that reports, for each task, the entropy of its tokens and of its answers: the first may rise while the
    second falls. `podium.analysis.support.support_change` compares what a trained model solves with what it did before:
    tasks preserved (P), expanded (E), shrunk (S); retention P/(P + S), discovery E/(P + E), net change (E − S)/(P + E +
    S).

    On-policy steps never give probability to an answer that had none. A study only measures: its training is GRPO's to
    the bit, at equal settings.

    Args:
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    return grpo(n=n, clip=clip, kl=kl).with_(updates=Updates(mini_batches=mini_batches), metric=(EntropyPair(),))
