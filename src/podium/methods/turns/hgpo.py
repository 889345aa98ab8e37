"""HGPO: hierarchy-of-groups policy optimisation for agents."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import verl_agent
from podium.parts.advantage import NestedHistories

__all__ = ["hgpo"]


@recipe(
    summary="Step-level credit in nested groups that share the last k states; longer histories weigh more.",
    citation="Hierarchy-of-Groups Policy Optimization, https://github.com/langfengQ/verl-agent",
    tags=("credit assignment", "step-level", "multi-turn", "agents", "group-relative"),
)
def hgpo(
    n: int = 8,
    gamma: float = 0.95,
    history: int = 2,
    scale: str = "std",
    alpha: float = 1.0,
    drop_zero: bool = True,
    base_group: bool = False,
    clip: float = 0.2,
    kl: float = 0.01,
) -> Method:
    """A_t = Σ_k w_k A_k, with A_k the return of step t against the steps of the group with the same last k states (k =
    1 … history + 1, at least two members), w_k ∝ (k + 1)^alpha.

    history = 0 is GiGPO's step advantage with the population std and without the episode part. Two public copies drop
    comparisons that are exactly 0 before weighting, one keeps them.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per step.
        history: Earlier states that the longest comparison must share.
        scale: `std` (population) or `none`.
        alpha: How much more longer histories weigh; 0: all the same.
        drop_zero: Leave out comparisons that are exactly 0 before weighting.
        base_group: Add the comparison of whole rollouts as k = 0.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    advantage = NestedHistories(
        gamma=gamma, history=history, scale=scale, alpha=alpha, drop_zero=drop_zero, base_group=base_group
    )
    return verl_agent(advantage, n, clip, kl)
