"""A first stage that teaches a format by imitation, for recipes whose methods need one."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.updates import Updates
from podium.method import Method, Phases, Protocol
from podium.parts.objective import Likelihood
from podium.strategies import Demonstrate, Draw

__all__ = ["taught"]


def taught(
    method: Method,
    iterations: Count,
    *draws: Draw,
    style: str = "short",
    lr: float = 1e-5,
    updates: Updates = Updates(epochs=8, mini_batches=8),
) -> Method:
    """The method after so many iterations that imitate the world's solutions, written in the format of each draw.

    A format is learned from few solutions, so each iteration takes 64 optimiser steps (8 epochs of 8 mini-batches); a
    skill needs many solutions, each seen once. `lr` is the learning rate beside that of the authors' reinforcement
    learning. 0 iterations: the method alone. A reference that is to be the policy after this stage has the source
    `phase`.
    """
    if iterations == 0:
        return method
    if isinstance(iterations, int) and iterations < 0:
        raise PodiumError(f"imitate = {iterations} must be at least 0.")
    imitate = Method(
        "imitate",
        rollout=Demonstrate(styles=(style,), draw=draws[0], others=draws[1:]),
        objective=(Likelihood(),),
        updates=updates,
        protocol=Protocol(lr=lr),
    )
    return Phases(imitate.until(iterations), method)
