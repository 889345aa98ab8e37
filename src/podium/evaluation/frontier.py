"""What can be had for how much divergence: the exponential tilt of a base policy, best-of-N, and a trained policy.

Under a budget of KL divergence from a policy p, no policy has a higher mean reward than the tilt
φ_β(y) ∝ p(y) exp(r(y) / β); β is the slope of that frontier. Everything here is exact for the distribution that is
given; equal weights on samples give the usual estimates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from podium.core.errors import PodiumError
from podium.evaluation.resample import Array, Measure, estimate

__all__ = ["Frontier", "best_of_bound", "best_of_law", "kl_between", "mean_under", "tilt", "tilt_within"]

SLOPES = np.geomspace(1e3, 1e-3, 241)  # β in units of the spread of the rewards


def tilt(p: ArrayLike, reward: ArrayLike, beta: float) -> Array:
    """φ(y) ∝ p(y) exp(r(y) / β): p itself for β = inf, the best outcomes alone for β = 0."""
    p, r = np.asarray(p, dtype=float), np.asarray(reward, dtype=float)
    above = r - r[p > 0].max()
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(above == 0, 0.0, above / beta) if beta else np.where(above == 0, 0.0, -np.inf)
    weights = np.where(p > 0, p * np.exp(np.minimum(scores, 0.0)), 0.0)
    return np.asarray(weights / weights.sum())


def kl_between(q: ArrayLike, p: ArrayLike) -> float:
    """KL(q ‖ p) = Σ q ln(q / p), in nats."""
    q, p = np.asarray(q, dtype=float), np.asarray(p, dtype=float)
    used = q > 0
    with np.errstate(divide="ignore"):
        return float((q[used] * np.log(q[used] / p[used])).sum())


def mean_under(law: ArrayLike, reward: ArrayLike) -> float:
    """The mean reward under a law."""
    return float(np.dot(law, reward))


def tilt_within(p: ArrayLike, reward: ArrayLike, budget: float) -> tuple[float, Array]:
    """β and the tilt whose KL divergence from p is the budget: of all within it, the one with the highest reward.

    A budget of 0 gives p (β = inf), and one that reaches the best outcomes gives those alone (β = 0).
    """
    p, r = np.asarray(p, dtype=float), np.asarray(reward, dtype=float)
    spread = float(np.ptp(r[p > 0]))
    if budget <= 0 or spread == 0:
        return math.inf, np.asarray(p / p.sum())
    if budget >= kl_between(tilt(p, r, 0.0), p):
        return 0.0, tilt(p, r, 0.0)

    low = high = spread  # β between which the divergence crosses the budget
    while kl_between(tilt(p, r, low), p) < budget:
        low /= 2
    while kl_between(tilt(p, r, high), p) > budget:
        high *= 2
    while True:
        beta = math.sqrt(low * high)
        if not low < beta < high:
            return beta, tilt(p, r, beta)
        low, high = (beta, high) if kl_between(tilt(p, r, beta), p) > budget else (low, beta)


def best_of_law(p: ArrayLike, reward: ArrayLike, n: float) -> Array:
    """The law of the best of n draws from p: P(reward level v) = F(v)ⁿ − F(v−)ⁿ, inside a level in proportion to p.

    n need not be whole.
    """
    p, r = np.asarray(p, dtype=float), np.asarray(reward, dtype=float)
    levels, level = np.unique(r, return_inverse=True)
    mass = np.bincount(level, p, minlength=len(levels))
    above = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0)  # 1 − F(v), exact where F is near 1
    with np.errstate(divide="ignore"):
        powers = np.exp(n * np.log1p(-np.minimum(np.append(above[::-1], mass.sum())[::-1], 1.0)))  # F(v−)ⁿ, then 1
    share = np.diff(powers)
    return np.asarray(np.divide(p * share[level], mass[level], out=np.zeros_like(p), where=mass[level] > 0))


def best_of_bound(n: float) -> float:
    """ln n − (n − 1) / n, which KL(best of n ‖ p) does not exceed; it is met where no two outcomes have equal rewards
    and each is rare."""
    return math.log(n) - (n - 1) / n


@dataclass(frozen=True)
class Frontier:
    """Rewards of a base model's answers and of a trained one's, the latter with how much likelier it makes them."""

    base: Array  # [task, sample] rewards
    trained: Array  # [task, sample] rewards
    log_ratio: Array  # [task, sample] ln π(y) − ln p(y) of the trained model's answers y

    def __post_init__(self) -> None:
        if len({self.base.shape[0], self.trained.shape[0], self.log_ratio.shape[0]}) > 1:
            raise PodiumError("The base and the trained model must have answered the same tasks.")

    @cached_property
    def tilted(self) -> tuple[Array, Array]:
        """[task, slope] KL and mean reward of the tilts of each task's answers, one slope for all tasks."""
        scale = float(np.ptp(self.base)) or 1.0
        n = self.base.shape[1]
        even = np.full(n, 1.0 / n)
        laws = [[tilt(even, rewards, beta * scale) for beta in SLOPES] for rewards in self.base]
        kl = np.array([[kl_between(law, even) for law in row] for row in laws])
        reward = np.array(
            [[mean_under(law, rewards) for law in row] for row, rewards in zip(laws, self.base, strict=True)]
        )
        return kl, reward

    def curve(self) -> tuple[Array, Array]:
        """KL and mean reward along the frontier, means over tasks."""
        kl, reward = self.tilted
        return kl.mean(0), reward.mean(0)

    def height(self, kl: float) -> float:
        """The mean reward of the frontier at a KL divergence; beyond the best answers that were sampled it is flat."""
        return float(np.interp(kl, *self.curve()))

    def best_of(self, counts: Sequence[int]) -> list[tuple[int, float, float]]:
        """(n, KL, mean reward) of the best of n base answers, means over tasks."""
        even = np.full(self.base.shape[1], 1.0 / self.base.shape[1])
        points = []
        for n in counts:
            laws = [best_of_law(even, rewards, n) for rewards in self.base]
            reward = [mean_under(law, rewards) for law, rewards in zip(laws, self.base, strict=True)]
            points.append((n, float(np.mean([kl_between(law, even) for law in laws])), float(np.mean(reward))))
        return points

    def measures(self) -> Mapping[str, Measure]:
        """Base and trained reward, the trained model's KL, and how far it lies below the frontier at that KL, with
        intervals over tasks."""
        kl, reward = self.tilted
        own = np.stack([self.base.mean(1), self.trained.mean(1), self.log_ratio.mean(1), np.ones(len(self.base))], 1)
        columns = np.concatenate([own, kl, reward], axis=1)[None]
        slopes = len(SLOPES)

        def below(sums: Array) -> Array:
            means = sums / sums[:, 3:4]
            rows = zip(means[:, 2], means[:, 4 : 4 + slopes], means[:, 4 + slopes :], means[:, 1], strict=True)
            return np.array([np.interp(at, x, y) - trained for at, x, y, trained in rows])

        def column(place: int) -> Measure:
            return estimate(columns, lambda sums: sums[:, place] / sums[:, 3])

        return {
            "reward of the base": column(0),
            "reward of the trained": column(1),
            "KL of the trained": column(2),
            "below the frontier": estimate(columns, below),
        }

    def as_dict(self) -> dict[str, Any]:
        kl, reward = self.curve()
        counts = [2**k for k in range(self.base.shape[1].bit_length())]
        return {
            **{name: m.as_dict() for name, m in self.measures().items()},
            "frontier": np.stack([kl, reward], 1).tolist(),
            "best_of": self.best_of(counts),
        }
