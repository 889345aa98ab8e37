"""What a refiner gains: by choosing what to revise, by how much it revises, and by where it cuts.

With a the probability that a trajectory y is accepted, R its reward, V the value of going on from a cut and
U(y) = Σ_k π(k | y) V(y, k):

    J(refined) − J(actor) = E[(1 − a)(U − R)] = Cov(a, R − U) + (1 − E a) · E[U − R]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError

__all__ = ["RefinerGain", "refiner_gain"]

Row = Sequence[float] | NDArray[np.float64]
TOLERANCE = 1e-6  # of a sum of probabilities


@dataclass(frozen=True)
class RefinerGain:
    """The gain of a refiner over its actor, and what it is made of: gain = precision + volume · skill."""

    regenerated: tuple[float, ...]  # U of each trajectory
    precision: float  # Cov(a, R − U): whether it accepts what a revision would not improve
    volume: float  # 1 − E a: how much it revises
    skill: float  # E[U − R]: what a revision changes on average
    gain: float  # E[(1 − a)(U − R)]


def refiner_gain(probability: Row, accept: Row, cuts: Sequence[Row], values: Sequence[Row], reward: Row) -> RefinerGain:
    """The exact gain on a table of all trajectories; `cuts` and `values` have a row for each and a column per cut."""
    p, a, r = (_numbers(name, x) for name, x in (("probability", probability), ("accept", accept), ("reward", reward)))
    if not len(p) == len(a) == len(r) == len(cuts) == len(values):
        raise PodiumError(
            f"A refiner's table has {len(p)} probabilities, {len(a)} verdicts, {len(r)} rewards, {len(cuts)} rows of "
            f"cuts and {len(values)} of values: give one of each for every trajectory."
        )
    _distribution("The trajectories", p)
    if not ((a >= 0) & (a <= 1)).all():
        raise PodiumError(f"A trajectory is accepted with a probability in [0, 1], not {a.min():g} or {a.max():g}.")
    u = np.array([_regenerated(n, k, v) for n, (k, v) in enumerate(zip(cuts, values, strict=True))])
    skill, volume = float(p @ (u - r)), float(1 - p @ a)
    precision = float(p @ ((a - p @ a) * (r - u)))
    return RefinerGain(tuple(u.tolist()), precision, volume, skill, float(p @ ((1 - a) * (u - r))))


def _regenerated(number: int, cuts: Row, values: Row) -> float:
    k, v = _numbers("cuts", cuts), _numbers("values", values)
    if len(k) != len(v):
        raise PodiumError(f"Trajectory {number} has {len(k)} probabilities of cuts and {len(v)} values after them.")
    _distribution(f"The cuts of trajectory {number}", k)
    return float(k @ v)


def _numbers(name: str, x: Row) -> NDArray[np.float64]:
    row = np.asarray(x, dtype=np.float64)
    if row.ndim != 1 or not np.isfinite(row).all():
        raise PodiumError(f"A refiner's {name} must be a row of finite numbers.")
    return row


def _distribution(what: str, p: NDArray[np.float64]) -> None:
    if (p < 0).any() or abs(p.sum() - 1) > TOLERANCE:
        raise PodiumError(f"{what} must have probabilities that sum to 1, not to {p.sum():g}.")
