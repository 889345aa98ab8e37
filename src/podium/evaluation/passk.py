"""How often a model is right when it may try k times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["bootstrap_interval", "majority_at_k", "pass_at_k", "pass_curve", "share_interval"]


def pass_at_k(n: int, correct: int, k: int) -> float:
    """1 − C(n − c, k) / C(n, k): the chance that one of k tries is right, unbiased from n tries of which c were."""
    if k > n:
        raise ValueError(f"pass@{k} needs at least {k} samples a task, not {n}.")
    if n - correct < k:
        return 1.0
    return 1.0 - math.prod((n - correct - i) / (n - i) for i in range(k))


def pass_curve(n: int, correct: int) -> NDArray[np.float64]:
    """[k − 1] pass@k for k = 1 to n."""
    k = np.arange(n, dtype=np.float64)
    return np.asarray(1.0 - np.cumprod(np.maximum(n - correct - k, 0) / (n - k)), dtype=np.float64)


def majority_at_k(answers: Sequence[str], correct: Sequence[bool], k: int) -> float:
    """Whether the most frequent of the first k answers is right; of equally frequent ones each counts its share."""
    first = list(zip(answers[:k], correct[:k], strict=True))
    counts = Counter(a for a, _ in first)
    top = max(counts.values())
    right = dict(first)
    winners = [a for a, c in counts.items() if c == top]
    return sum(bool(right[a]) for a in winners) / len(winners)


def bootstrap_interval(
    values: Sequence[float], level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """A bootstrap interval of the mean over tasks."""
    x = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    means = rng.choice(x, size=(draws, len(x))).mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def share_interval(shares: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """An interval of the mean of shares over tasks, within [0, 1]: by bootstrap, and by Wilson's formula where all
    tasks have the same share, of which a bootstrap would conclude that there is no doubt at all."""
    low, high = bootstrap_interval(shares, level)
    mean, count = float(np.mean(shares)), len(shares)
    if low < high:
        return min(max(low, 0.0), mean), max(min(high, 1.0), mean)
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    centre = (mean + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(z2 * (mean * (1 - mean) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return min(max(centre - half, 0.0), mean), max(min(centre + half, 1.0), mean)
