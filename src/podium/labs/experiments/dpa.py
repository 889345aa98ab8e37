"""One policy that is told a direction, beside one policy for each direction.

Policies are trained on sums; what is read are the rollouts of the last iterations, on tasks that have not come before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from podium.evaluation.resample import Array
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.methods import get
from podium.parts.metric.steering import spearman
from podium.sessions.train import train
from podium.store.tables import read_rows, rollout_files

__all__ = ["STUDY", "hypervolume"]

ANGLES = (-45.0, -27.0, -9.0, 9.0, 27.0, 45.0)  # the edges of five bins
SCALAR = (-45.0, 0.0, 45.0)
LAST = 3  # iterations that are read
STEERING = Quantity("steering", "Spearman of angle and length", (-1.0, 1.0))
FRONT = Quantity("hypervolume", "hypervolume of the front")


class DirectionTrialSize(StudySize):
    """How long the policies are trained."""

    seeds: int = 4
    iterations: int = 16
    tasks: int = 32
    n: int = 8


def hypervolume(points: Array) -> float:
    """The share of [0, 100]² below some point [point, 2] of (first, second) or (first, 100 − second).

    More of the second score is wished for at one end of the range of angles and less of it at the other, so the front
    has two sides: the mean of both.
    """
    return (_below(points) + _below(np.stack([points[:, 0], 100 - points[:, 1]], 1))) / 2


def _below(points: Array) -> float:
    total, height = 0.0, 0.0
    for first, second in sorted(points.clip(0, 100).tolist(), reverse=True):
        total += first * max(second - height, 0.0)
        height = max(height, second)
    return total / 1e4


def _scores(seed: int, size: DirectionTrialSize, **settings: float) -> tuple[Array, Array]:
    """([rollout] angle, [rollout, 2] scores) of the last iterations of a run."""
    method = get("dpa", n=size.n, **settings)
    with TemporaryDirectory() as folder:
        train(
            method,
            world="sums",
            world_settings={"level": 2},
            seed=seed,
            iterations=size.iterations,
            tasks=size.tasks,
            eval_every=0,
            eval_tasks=1,
            out=Path(folder) / "run",
        )
        files = list(rollout_files(Path(folder) / "run").values())[-LAST:]
        rows = [row for file in files for row in read_rows(file, ["angle", "scores"])]
    return np.array([row["angle"] for row in rows]), np.array([row["scores"] for row in rows])


def _front(angle: Array, scores: Array) -> Array:
    """[bin, 2] the mean scores by angle."""
    number = np.digitize(angle, ANGLES[1:-1])
    return np.stack([scores[number == b].mean(0) for b in range(len(ANGLES) - 1) if (number == b).any()])


def told(seed: int, size: DirectionTrialSize) -> Mapping[str, float | Array]:
    """One policy, told a direction between −45 and 45 degrees."""
    return _read(*_scores(seed, size))


def untaught(seed: int, size: DirectionTrialSize) -> Mapping[str, float | Array]:
    """The same prompts, before the policy has learned anything of them."""
    return _read(*_scores(seed, size.replace(iterations=1), first=0))


def scalar(seed: int, size: DirectionTrialSize) -> Mapping[str, float | Array]:
    """Three policies, one for each of the directions −45, 0 and 45 degrees."""
    each = [_scores(seed, size, low=angle, high=angle) for angle in SCALAR]
    return _read(np.concatenate([a for a, _ in each]), np.concatenate([s for _, s in each]))


def _read(angle: Array, scores: Array) -> Mapping[str, float | Array]:
    points = _front(angle, scores)
    order = torch.arange(len(points), dtype=torch.float64)
    return {
        "steering": float(spearman(order, torch.tensor(points[:, 1]))),
        "hypervolume": hypervolume(points),
        "first": points[:, 0],
        "second": points[:, 1],
    }


STUDY = Trial(
    "dpa",
    "Does one policy that is told a direction follow it, and reach what one policy for each direction reaches?",
    arms={"told": told, "untaught": untaught, "a policy each": scalar},
    claims=(
        Claim("length follows the angle that is told", STEERING, "told", "untaught"),
        Claim("the front of one policy encloses more than that of three", FRONT, "told", "a policy each"),
    ),
    readings=(STEERING, FRONT),
    size=DirectionTrialSize(),
    quick=DirectionTrialSize(seeds=2, iterations=8, tasks=12),
)
