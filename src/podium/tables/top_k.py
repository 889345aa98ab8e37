"""How good a selector of policies is: what the k best by its estimates are really worth, against their risk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["TopK", "normalised_error", "rank_correlation", "regret_at", "top_k"]

Array = np.ndarray
CLIP = 100.0  # the reference's bound of the ratio


@dataclass(frozen=True)
class TopK:
    """What the k best candidates by an estimate are worth, for k = 1, 2, …; None where it is undefined."""

    ranking: list[int]
    best: list[float]
    worst: list[float]
    mean: list[float]
    std: list[float | None]
    safety_violation_rate: list[float]
    sharpe_ratio: list[float | None]


def top_k(
    estimated: ArrayLike,
    true: ArrayLike,
    behaviour: float,
    *,
    max_k: int | None = None,
    clip: bool = False,
    safety_threshold: float = -np.inf,
) -> TopK:
    """SharpeRatio@k = max(0, best@k − J_b) / std@k, with the sample standard deviation. J_b is the behaviour policy's
    value plus 1e-10, and the numerator is clipped at 0, both as in the reference."""
    estimate, value = np.asarray(estimated, dtype=float), np.asarray(true, dtype=float)
    ranking = np.argsort(-estimate, kind="stable")
    base = behaviour + 1e-10
    found = TopK(ranking.tolist(), [], [], [], [], [], [])
    for k in range(1, (max_k or len(value)) + 1):
        chosen = value[ranking[:k]]
        std = float(chosen.std(ddof=1)) if k > 1 else None
        found.best.append(float(chosen.max()))
        found.worst.append(float(chosen.min()))
        found.mean.append(float(chosen.mean()))
        found.std.append(std)
        found.safety_violation_rate.append(float((chosen < safety_threshold).mean()))
        found.sharpe_ratio.append(_ratio(max(0.0, float(chosen.max()) - base), std, clip))
    return found


def _ratio(gain: float, std: float | None, clip: bool) -> float | None:
    if std is None:
        return None
    ratio = gain / std if std > 0 else np.inf
    return min(ratio, CLIP) if clip else ratio


def normalised_error(estimated: ArrayLike, true: ArrayLike) -> float:
    """Mean squared error of the estimates over the variance of the true values."""
    e, t = np.asarray(estimated, dtype=float), np.asarray(true, dtype=float)
    return float(((e - t) ** 2).mean() / t.var()) if t.var() > 0 else float("nan")


def rank_correlation(estimated: ArrayLike, true: ArrayLike) -> float:
    """Spearman's rank correlation."""
    from scipy.stats import spearmanr  # type: ignore[import-untyped]

    return float(spearmanr(np.asarray(estimated), np.asarray(true)).statistic)


def regret_at(estimated: ArrayLike, true: ArrayLike, k: int) -> float:
    """The best candidate of all minus the best of the k that are chosen."""
    value = np.asarray(true, dtype=float)
    return float(value.max() - value[np.argsort(-np.asarray(estimated, dtype=float), kind="stable")[:k]].max())
