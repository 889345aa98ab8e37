"""MASHost: a host builds a team of agents step by step, judged as a whole and action by action."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import ActionRewards
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Choose

__all__ = ["mashost"]

OF_ACTIONS = Aggregate("token mean, turn mean, rollout mean")


@recipe(
    summary="A host adds agents with their links, deletes or exits; outcomes are group-relative, actions judged alone.",
    citation="MASHost: Autonomous Multi-Agent System Directed by Reinforcement Learning",
    tags=("multi-agent", "topology", "chooser", "group-relative", "turn-level"),
    presets={"outcome": {"weight": 0.0}},
    protocol=Protocol(
        model="two policy networks over frozen GPT-4o-mini agents", source="MASHost, which gives no rate"
    ),
    home=Home("team", level=1, dials={"build": True}, iterations=12, tasks=12, model="podium/chooser"),
)
def mashost(
    n: int = 16,
    weight: float = 0.5,
    clip: float = 0.2,
    kl: float = 0.01,
    mini_batches: int = 4,
    epsilon: float = 1e-6,
) -> Method:
    """π(role, links) = π(role) · Π Bernoulli(link): the role that is added, delete or exit, then the links from the
    agents that are there. A_t = (R − mean) / (std + ε) over the teams built for a query, + weight · r_t, the reward of
    the action. The clipped ratio is that of the joint probability of an action; mean over the actions of a team, then
    over teams; k3 KL to the start policy.

    The world gives r: −1 for an agent that is there already or cannot reach the answer, 0.5 where the answer turned
    right, −0.1 for every agent beyond the third. weight = 0 (`mashost@outcome`) is GRPO on whole teams. Of the paper
    are the factorised policy, the two levels of reward and the free first steps; how the levels are added and what
    actions earn is ours, and so are n, the clip range, the KL's coefficient and the 4 updates per batch. One network
    with two heads stands for the paper's two.

    Args:
        n: Teams per query (the group size).
        weight: Weight of the rewards of actions.
        clip: Clip range of the ratio of an action.
        kl: Coefficient of the KL penalty to the start policy.
        mini_batches: Optimiser steps per batch.
        epsilon: Added to the standard deviation.
    """
    return Method(
        rollout=Choose(n=n),
        advantage=ActionRewards(weight=weight, epsilon=epsilon),
        objective=(
            PolicyGradient(ratio="turn", clip=Clip(clip, clip), shared=True, joint=True, aggregate=OF_ACTIONS),
            KL("k3", coefficient=kl, aggregate=OF_ACTIONS),
        ),
        updates=Updates(mini_batches=mini_batches),
        roles=(Role("ref"),),
    )
