"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.parts.annotate import RandomBlocks

__all__ = ["srgpo"]


@recipe(
    summary="Whole rollouts compared within the task, verifiable rewards of steps within random blocks of the batch.",
    citation="SeeNav-Agent: Step Reward Group Policy Optimization, https://github.com/WzcTHU/SeeNav-Agent",
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

    Blocks are drawn from the whole batch, or `among` the steps of a ("group",) or a ("rollout",). A block of one gives
    0. omega = 0 is GRPO in which a rollout counts once for each of its steps.
    """
    outcome = MixtureComponent(of="rollout.reward", scale=scale)
    step = MixtureComponent(key=(*among, "step.block"), share=omega, scale=scale, singleton="zero")
    return step_credit(n, outcome, step, kl=kl) | RandomBlocks(size, among)
