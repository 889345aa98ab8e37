"""GiGPO: group-in-group policy optimisation for agents."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import verl_agent
from podium.parts.advantage import GroupInGroup

__all__ = ["gigpo"]


@recipe(
    summary="Two-level credit assignment: rollouts of a task, and steps taken from the same anchor state.",
    citation="Feng et al. 2025, Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978",
    tags=("credit assignment", "step-level", "multi-turn", "agents", "group-relative"),
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

    omega = 0 with `rows="rollout"` and `scale="std"` is GRPO. The release counts each step of a rollout in the
    episode's mean, `gigpo@paper` each rollout once.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per step.
        omega: Weight of the step-level advantage.
        scale: `std` divides both advantages by their std, `none` does not.
        rows: What counts once in the episode's mean: each `step` or each `rollout`.
        similarity: Least share of matching characters at which two states count as the same (0.95 in the release);
            None: equal states.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    advantage = GroupInGroup(gamma=gamma, omega=omega, scale=scale, rows=rows, similarity=similarity)
    return verl_agent(advantage, n, clip, kl)
