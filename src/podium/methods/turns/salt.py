"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import verl_agent
from podium.parts.advantage import Normalize
from podium.parts.shape import SharedEdges

__all__ = ["salt"]


@recipe(
    summary="A step that several rollouts share gets the mean of their advantages; "
    "a step of one rollout keeps its own.",
    citation="SALT: Step-level Advantage Assignment via Trajectory Graph, https://arxiv.org/abs/2510.20022",
)
def salt(n: int = 8, host: str = "grpo", window: int = 1, clip: float = 0.2, kl: float = 0.01) -> Method:
    """The rollouts of a group overlaid as a graph: the advantage of a step is the mean over all steps with the same
    (state, action, next state). Hosts: `grpo`, `rloo`, `mean` (no division).

    Without a shared edge it is the host exactly.
    """
    hosts = {
        "grpo": Normalize(singleton="zero"),
        "rloo": Normalize(centre="leave_one_out", scale="none", singleton="zero"),
        "mean": Normalize(scale="none", singleton="zero"),
    }
    if host not in hosts:
        raise PodiumError(f"salt: host = {host!r} is not one of {', '.join(hosts)}.")
    return verl_agent(hosts[host], n, clip, kl) | SharedEdges(window)
