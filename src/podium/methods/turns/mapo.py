"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent

__all__ = ["mapo"]


@recipe(
    summary="Half the return among rollouts at the same turn, half the immediate reward among all turns.",
    citation="Mixed Advantage Policy Optimization for Long-Horizon Multi-Turn Dialogue",
)
def mapo(
    n: int = 8,
    gamma: float = 1.0,
    alpha: float = 0.5,
    beta: float = 0.5,
    immediate: str = "batch",
    kl: float = 0.001,
) -> Method:
    """A = alpha · z(returns; task, turn number) + beta · z(rewards; all turns of the batch), population std + 1e-8.

    `immediate="group"` compares the rewards within the task, as a later version of the paper does. A turn that one
    rollout alone reaches has no first part. alpha = 1, beta = 0 on single turns is GRPO with the population std.
    """
    if immediate not in ("batch", "group"):
        raise PodiumError(f"mapo: immediate = {immediate!r} is not one of batch, group.")
    population = MixtureComponent(unbiased=False, epsilon=1e-8, singleton="zero")
    turn = population.replace(gamma=gamma, key=("group", "step.index"), share=alpha)
    now = population.replace(key=() if immediate == "batch" else ("group",), share=beta)
    return step_credit(n, turn, now, kl=kl)
