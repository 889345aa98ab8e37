"""EMPG: entropy-modulated policy gradients for long-horizon agents."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import EntropyModulation
from podium.strategies import Sample

__all__ = ["empg"]


@recipe(
    summary="Entropy-modulated credit: confident turns get larger updates, uncertain ones smaller; clarity bonus.",
    citation="Entropy-Modulated Policy Gradients (Harnessing Uncertainty), https://empgseed-seed.github.io",
    tags=("entropy", "credit assignment", "multi-turn", "agents", "uncertainty"),
    protocol=Protocol(
        model="Qwen2.5-7B-Instruct",
        iterations=150,
        source="summary of the OpenReview version (ALFWorld, WebShop); no script was found",
    ),
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def empg(
    n: int = 8,
    k: float = 1.0,
    k_future: float = 1.0,
    zeta: float = 0.1,
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """A_t = A · g(H_t) + zeta · f(H_{t+1}), minus its mean over all turns: A is GRPO's, H_t the mean entropy of the
    turn scaled to [0, 1] over the batch, g = e^{−kH} over its mean, f = e^{−k'H}.

    k = zeta = 0 is GRPO minus the mean over turns. A group with equal outcomes still has the bonus, as in the reference
    implementation. zeta is 0.1 on the project page; the paper also uses 0.05. No training script was published: the
    mini-batches are those of the agents' code base (verl-agent) on which it was run.

    Args:
        n: Rollouts per task (the group size).
        k: How steeply the gradient's weight falls with the turn's entropy.
        k_future: The same in the bonus for the next turn, k'.
        zeta: Weight of the bonus for turns that lead to a confident one.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(EntropyModulation(k, k_future, zeta),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches, unit="rollout"),
        metric=(ReportMean("turn.factor"),),
    )
