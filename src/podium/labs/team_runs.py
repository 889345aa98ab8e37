"""What trials of choosers share: teams of a trained policy, and of no policy, on the same held-out queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.evaluation.resample import Array
from podium.labs.findings import StudySize
from podium.labs.network_runs import held_out_rollouts, trained_run
from podium.labs.trial import Quantity
from podium.method import Method
from podium.worlds import Task
from podium.worlds.team import TeamWorld

__all__ = ["SUCCESS", "TeamSize", "learned_teams", "queries"]

SUCCESS = Quantity("success", "right answers", (0.0, 1.0))


class TeamSize(StudySize):
    """How long a policy is trained, and on how many queries its teams are tried."""

    iterations: int = 12
    tasks: int = 8
    eval_tasks: int = 120


def learned_teams(
    method: Method, of: Mapping[str, Callable[[Rollout], float]], seed: int, size: TeamSize, **world: Any
) -> Mapping[str, Array]:
    """Readings of the teams that a trained policy makes, each choice the likeliest."""
    sizes = {"iterations": size.iterations, "tasks": size.tasks, **world}
    with trained_run(method, seed, world="team", model="podium/chooser", **sizes) as run:
        groups = held_out_rollouts(run, size.eval_tasks, 1, temperature=0.0)
    return {name: np.array([float(read(group[0])) for group in groups]) for name, read in of.items()}


def queries(world: TeamWorld, seed: int, size: TeamSize) -> list[tuple[Task, int]]:
    """Held-out queries for a team that nobody has learned, each with its random seed."""
    return [(world.task(n, "test"), seed * size.eval_tasks + n) for n in range(size.eval_tasks)]
