"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.parts.metric.entropies import EntropyPair

__all__ = ["invisible_leash"]


@recipe(
    summary="Does training reach new answers, or only sharpen old ones? Token entropy against answer entropy.",
    citation="Wu et al. 2025, The Invisible Leash: Why RLVR May Not Escape Its Origin, https://arxiv.org/abs/2507.14843",
    kind="metric",
)
def invisible_leash(n: int = 8, clip: float = 0.2, kl: float = 0.0) -> Method:
    """GRPO that reports, for each task, the entropy of its tokens and of its answers: the first may rise while the
    second falls. `podium.evaluation.support_change` compares what a trained model solves with what it did before:
    tasks preserved, expanded, shrunk; retention P/(P + S), discovery E/(P + E), net change (E − S)/(P + E + S).

    On-policy steps never give probability to an answer that had none.
    """
    return grpo(n=n, clip=clip, kl=kl).with_(metric=(EntropyPair(),))
