"""RLOO: REINFORCE leave-one-out."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.parts.reward import SequenceKL
from podium.strategies import Sample

__all__ = ["rloo"]


@recipe(
    summary="Leave-one-out baseline: each rollout is compared with the mean reward of the others in its group.",
    citation="Ahmadian et al. 2024, Back to Basics, https://arxiv.org/abs/2402.14740",
    extends="reinforce",
    tags=("policy gradient", "baseline", "variance reduction", "kl penalty", "sequence-level"),
    protocol=Protocol(
        model="Pythia-6.9B after SFT",
        lr=1e-6,
        warmup=0.03,
        schedule="constant",
        iterations=600,
        max_turns=1,
        source="RLOO (arXiv 2402.14740), appendix: 512 rollouts per batch, 256 per step",
    ),
    home=Home(level=2),
)
def rloo(n: int = 4, kl: float = 0.03, mini_batches: int = 2) -> Method:
    """A_i = r_i − mean of the other rollouts' rewards = G/(G − 1) · (r_i − mean); REINFORCE on whole answers; the
    log-ratio to the reference, summed over the answer and times `kl`, is subtracted from the reward; 2 updates per
    batch.

    Without the factor G/(G − 1) it is Dr. GRPO's advantage.

    Args:
        n: Rollouts per task (the group size).
        kl: Coefficient of the sequence-level KL penalty in the reward; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        advantage=Normalize(centre="leave_one_out", scale="none"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate("token sum, rollout mean")),),
        updates=Updates(mini_batches=mini_batches),
    )
    return method if kl == 0 else method | SequenceKL(kl) | Role("ref")
