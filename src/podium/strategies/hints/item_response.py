"""Item response: a logistic curve of success against the share of a solution that is shown, fitted for each task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from podium.core.errors import PodiumError, within
from podium.core.value import Value

__all__ = ["Curve", "ItemResponse"]

Points = list[tuple[float, float]]  # (share shown, success rate)


class Curve(Value):
    """f(p) = b + (1 − b) / (1 + e^{−k (p + mu)}): the success rate where the share p of a solution is shown."""

    k: float = 10.0  # slope
    mu: float = -0.5  # ability of the policy: −mu is the share at which the curve is halfway up
    b: float = 0.0  # success rate by guessing

    def __post_init__(self) -> None:
        within(self, "k", 0, open_low=True)
        within(self, "b", 0, 1)

    def __call__(self, p: float) -> float:
        return self.b + (1 - self.b) * _logistic(self.k * (p + self.mu))

    def inverse(self, target: float) -> float:
        """The share at which the success rate is `target`, within [0, 1]; 0 where guessing is enough."""
        if target <= self.b:
            return 0.0
        x = (target - self.b) / (1 - self.b)
        p = math.inf if x >= 1 else math.log(x / (1 - x)) / self.k - self.mu
        return min(max(p, 0.0), 1.0)


class ItemResponse(Value):
    """The share of a solution to show next, so that about `target` of the rollouts succeed.

    A curve is fitted by least squares to the rounds so far; rounds with the same share count with their mean success
    rate. If no round has shown nothing, the point (0, 0) is added; if none has shown everything, the point (1, 1).
    """

    reference = "SEELE, https://arxiv.org/abs/2509.06923"
    target: float = 0.5  # success rate
    k: tuple[float, float] = (0.1, 50.0)  # bounds of the curve's k
    mu: tuple[float, float] = (-1.0, 1.0)  # of its mu
    b: tuple[float, float] = (0.0, 0.999)  # of its b

    def __post_init__(self) -> None:
        within(self, "target", 0, 1)
        for name in ("k", "mu", "b"):
            low, high = getattr(self, name)
            if not low < high:
                raise PodiumError(f"ItemResponse.{name} = {(low, high)}: the first bound must lie below the second.")

    def points(self, rounds: Sequence[tuple[float, float]]) -> Points:
        """What the curve is fitted to: (share, mean success rate at that share) per round, and the ends not tried."""
        tried: dict[float, list[float]] = {}
        for share, success in rounds:
            tried.setdefault(share, []).append(success)
        points = [(share, sum(tried[share]) / len(tried[share])) for share, _ in rounds]
        return points + [(end, end) for end in (0.0, 1.0) if end not in tried]

    def error(self, rounds: Sequence[tuple[float, float]], curve: Curve) -> float:
        """Σ (f(p) − success)² over the points."""
        return sum((curve(share) - success) ** 2 for share, success in self.points(rounds))

    def fit(self, rounds: Sequence[tuple[float, float]]) -> Curve:
        """The curve of least squared error: trust-region reflective least squares from a fixed start."""
        return Curve(*_nearest(tuple(self.points(rounds)), self.k, self.mu, self.b))

    def next(self, rounds: Sequence[tuple[float, float]]) -> float:
        """The share to show next."""
        return self.fit(rounds).inverse(self.target)


@lru_cache(4096)  # tasks that always fail, or always succeed, share their points
def _nearest(points: tuple[tuple[float, float], ...], *bounds: tuple[float, float]) -> tuple[float, float, float]:
    """k, mu and b of the least-squares curve, each within its bounds."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]
    from scipy.special import expit  # type: ignore[import-untyped]

    share, success = np.array(points).T
    low, high = zip(*bounds, strict=True)
    (k0, k1), mu0, (b0, b1) = bounds

    def residuals(x: Any) -> Any:
        k, mu, b = x
        return b + (1 - b) * expit(k * (share + mu)) - success

    def slopes(x: Any) -> Any:
        k, mu, b = x
        s = expit(k * (share + mu))
        steep = (1 - b) * s * (1 - s)
        return np.stack([steep * (share + mu), steep * k, 1 - s], axis=1)

    start = [min(max(10.0, k0), k1), sum(mu0) / 2 - 0.25, b0 + 0.01 * (b1 - b0)]
    start = [min(max(x, lo + 1e-6), hi - 1e-6) for x, lo, hi in zip(start, low, high, strict=True)]
    # After a hundred steps the error falls by less than 1e-9, far below the noise of a few rollouts.
    fit = least_squares(residuals, start, slopes, bounds=(low, high), method="trf", max_nfev=100)
    k, mu, b = map(float, fit.x)
    return k, mu, b


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
