"""SRGPO (SeeNav-Agent): step reward group policy optimisation."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.parts.annotate import RandomBlocks

__all__ = ["srgpo"]


@recipe(
    summary="Step-level advantages from verifiable step rewards in random groups, needing no identical states.",
    citation="SeeNav-Agent: Step Reward Group Policy Optimization, https://github.com/WzcTHU/SeeNav-Agent",
    tags=("step-level", "process reward", "credit assignment", "agents", "multimodal"),
)
def srgpo(
    n: int = 8,
    omega: float = 0.5,
    size: int = 16,
    among: tuple[str, ...] = (),
    scale: str = "std",
    kl: float = 0.01,
) -> Method:
    """A = N(outcome; rows of the task) + omega · N(reward of the step; random block of `size` steps).

    omega = 0 is GRPO in which a rollout counts once for each of its steps. A block of one gives 0.

    Args:
        n: Rollouts per task (the group size).
        omega: Weight of the step-level advantage.
        size: Steps per random block.
        among: Where a block's steps come from: `()` the whole batch, `("group",)` or `("rollout",)`.
        scale: `std` divides both advantages by their std, `none` does not.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    outcome = MixtureComponent(of="rollout.reward", scale=scale)
    step = MixtureComponent(key=(*among, "step.block"), share=omega, scale=scale, singleton="zero")
    return step_credit(n, outcome, step, kl=kl) | RandomBlocks(size, among)
