"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import verl_agent
from podium.parts.advantage import GroupInGroup

__all__ = ["gigpo"]


@recipe(
    summary="Two comparisons at once: rollouts of a task, and all steps of the task taken from the same state.",
    citation="Feng et al. 2025, Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978",
    presets={"release": {}, "paper": {"rows": "rollout"}},
)
def gigpo(
    n: int = 8,
    gamma: float = 0.95,
    omega: float = 1.0,
    scale: str = "none",
    rows: str = "step",
    similarity: float | None = None,
    clip: float = 0.2,
    kl: float = 0.01,
) -> Method:
    """A = A_episode + omega · A_step: outcomes against the mean of the group, and discounted returns of steps against
    the mean of those taken from the same state; `scale="std"` divides both by their std.

    The release counts each step of a rollout in the episode's mean, `gigpo@paper` each rollout once.
    `similarity` (0.95 in the release, where it is switched on) compares steps from states whose texts are nearly equal.
    omega = 0 with `rows="rollout"` and `scale="std"` is GRPO.
    """
    advantage = GroupInGroup(gamma=gamma, omega=omega, scale=scale, rows=rows, similarity=similarity)
    return verl_agent(advantage, n, clip, kl)
