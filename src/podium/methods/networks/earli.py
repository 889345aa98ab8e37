"""EARLI: a policy that builds vehicle routes, whose routes a genetic search starts from."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.strategies import Choose

__all__ = ["earli"]


@recipe(
    summary="A policy learns to build vehicle routes, and its routes are the first generation of a genetic search.",
    citation="Accelerating Vehicle Routing via AI-Initialized Genetic Algorithms, https://arxiv.org/abs/2504.06126",
    tags=("combinatorial optimisation", "vehicle routing", "chooser", "search", "group-relative"),
    presets={"paper": {}},
    protocol=Protocol(model="an attention encoder and decoder on up to 500 places", source="summaries of the paper"),
    home=Home("routes", level=1, iterations=24, tasks=8, model="podium/chooser"),
)
def earli(n: int = 16, clip: float = 0.2, entropy: float = 0.003, mini_batches: int = 4) -> Method:
    """n routes are built for each instance, and the advantage of a route is −(its cost − the mean cost of the n), not
    divided by a standard deviation; PPO's clip on each choice, and an entropy bonus.

    `podium lab earli` uses what is learned: the likeliest route and seven drawn ones go through local search and, with
    random routes, are the first generation of a genetic search. Routes that occur twice are kept once; of too many the
    cheapest are kept. Of the paper, by summaries of others: a constructive policy trained by PPO on past instances,
    masks, K = 8, and gaps to the best known at equal time. Ours are the mean of the group in place of a value head, n,
    the clip range and the bonus for entropy, sizes that are mixed in training (`--set world.mixed=true`) in place of a
    curriculum from 50 to 500 customers, and a small genetic search (order crossover, pieces that are reversed or moved)
    in place of two solvers.

    Args:
        n: Routes per instance (the group size).
        clip: Clip range of the ratio of a choice.
        entropy: Coefficient of the entropy bonus.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Choose(n=n),
        advantage=Normalize(scale="none"),
        objective=(PolicyGradient(clip=Clip(clip, clip)), Entropy(coefficient=entropy)),
        updates=Updates(mini_batches=mini_batches),
    )
