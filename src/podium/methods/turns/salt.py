"""SALT: step-level advantages from a graph of trajectories."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Home, Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import verl_agent
from podium.parts.advantage import Normalize
from podium.parts.shape import SharedEdges

__all__ = ["salt"]


@recipe(
    summary="Step-level credit via a trajectory graph: steps shared by rollouts get the mean of their advantages.",
    citation="SALT: Step-level Advantage Assignment via Trajectory Graph, https://arxiv.org/abs/2510.20022",
    tags=("credit assignment", "step-level", "agents", "multi-turn", "group-relative"),
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def salt(
    n: int = 8, host: str = "grpo", window: int = 1, clip: float = 0.2, kl: float = 0.01, mini_batches: int = 4
) -> Method:
    """The rollouts of a group are overlaid as a graph: the advantage of a step is the mean over all steps with the same
    (state, action, next state).

    Without a shared edge it is exactly the method it is applied to (`host`). No code was published: the clip, the KL
    penalty and the mini-batches are those of the agents' code base (verl-agent) that hosts it.

    Args:
        n: Rollouts per task (the group size).
        host: The rollout-level advantage: `grpo`, `rloo` or `mean` (no division).
        window: Last states that make up a node of the graph.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    hosts = {
        "grpo": Normalize(singleton="zero"),
        "rloo": Normalize(centre="leave_one_out", scale="none", singleton="zero"),
        "mean": Normalize(scale="none", singleton="zero"),
    }
    if host not in hosts:
        raise PodiumError(f"salt: host = {host!r} is not one of {', '.join(hosts)}.")
    method = verl_agent(hosts[host], n, clip=clip, kl=kl, entropy=0.0, mini_batches=mini_batches)
    return method | SharedEdges(window)
