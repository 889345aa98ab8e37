"""What trials of flows share: training at a budget of network evaluations, and what is measured of the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from podium.core.build import Rollout
from podium.evaluation.resample import Array
from podium.labs.findings import StudySize
from podium.labs.network_runs import held_out_rollouts, trained_run
from podium.labs.trial import Quantity
from podium.method import Method
from podium.protocols.drawn_text import SHADES

__all__ = ["DISTANCE", "DIVERSITY", "EVALUATIONS", "REWARD", "DrawnSize", "drawn_arm"]

REWARD = Quantity("reward", "reward", (0.0, 1.0))
DISTANCE = Quantity("distance", "distance to digits")
DIVERSITY = Quantity("diversity", "diversity")
EVALUATIONS = Quantity("evaluations", "network evaluations (thousands)")


class DrawnSize(StudySize):
    """How long flows are trained, and how many pictures of theirs are looked at."""

    seeds: int = 6
    iterations: int = 24  # with the scores of all finished pictures; others have as many evaluations
    tasks: int = 8  # in an iteration, of 24 pictures each
    eval_tasks: int = 60
    samples: int = 4


def drawn_arm(method: Method, tasks: float, iterations: float, seed: int, size: DrawnSize) -> Mapping[str, Array]:
    """A flow trained with so many times the tasks and iterations of the size; its pictures are drawn as in training."""
    sizes = {"tasks": round(tasks * size.tasks), "iterations": round(iterations * size.iterations)}
    with trained_run(method, seed, world="drawing", model="podium/flow", **sizes) as run:
        spent = run.driver.spent[1]
        groups = held_out_rollouts(run, size.eval_tasks, size.samples)
    return {
        "reward": np.array([np.mean([r.columns["reward"] for r in group]) for group in groups]),
        "distance": np.array([np.mean([r.columns["distance"] for r in group]) for group in groups]),
        "diversity": np.array([_diversity(group) for group in groups]),
        "evaluations": np.full(len(groups), spent / 1000),
    }


def _diversity(group: Sequence[Rollout]) -> float:
    """The root mean square difference between two pictures of a task."""
    pixels = np.array([[int(x) for x in r.columns["text"].split()] for r in group]) / SHADES
    apart = np.sqrt(((pixels[:, None] - pixels[None]) ** 2).mean(-1))
    return float(apart.sum() / (len(group) * (len(group) - 1)))
