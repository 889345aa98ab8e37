"""AdaNormalHedge with sleeping experts: one learner per overlapping group, and small regret for every group."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["SleepingExperts", "hedge_weight"]

Array = np.ndarray


def _potential(regret: Array, scale: Array) -> Array:
    """Φ(R, C) = exp(max(R, 0)² / 3C), and 1 for C = 0."""
    positive = np.maximum(regret, 0.0) ** 2
    return np.exp(np.divide(positive, 3.0 * scale, out=np.zeros_like(positive), where=scale > 0))


def hedge_weight(regret: ArrayLike, scale: ArrayLike) -> Array:
    """w(R, C) = ½ (Φ(R + 1, C + 1) − Φ(R − 1, C + 1)); never negative."""
    r, c = np.asarray(regret, dtype=float), np.asarray(scale, dtype=float)
    return 0.5 * (_potential(r + 1.0, c + 1.0) - _potential(r - 1.0, c + 1.0))


@dataclass
class SleepingExperts:
    """The state of the experts: regret R and scale C of each, both of which start at 0."""

    experts: int
    regret: Array = field(default_factory=lambda: np.zeros(0))
    scale: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not len(self.regret):
            self.regret, self.scale = np.zeros(self.experts), np.zeros(self.experts)

    def probability(self, active: ArrayLike) -> Array:
        """[expert] p ∝ w(R, C) over those that are awake; uniform if all weights are 0."""
        awake = np.asarray(active, dtype=bool)
        if not awake.any():
            raise ValueError("no expert is awake; add one for everybody")
        # Weights reach e^(T/3): only their ratios matter, so the largest exponent is taken out.
        top = float(np.max(np.maximum(self.regret[awake] + 1.0, 0.0) ** 2 / (3.0 * (self.scale[awake] + 1.0))))
        if top > 600:
            w = np.where(awake, self._shifted(top), 0.0)
        else:
            w = np.where(awake, hedge_weight(self.regret, self.scale), 0.0)
        return w / w.sum() if w.sum() > 0 else awake / awake.sum()

    def _shifted(self, top: float) -> Array:
        c = 3.0 * (self.scale + 1.0)
        up, down = (np.maximum(self.regret + s, 0.0) ** 2 / c - top for s in (1.0, -1.0))
        return np.exp(up) - np.exp(down)

    def update(self, active: ArrayLike, loss: ArrayLike) -> float:
        """Book the losses, in [0, 1], of a round; returns that of the combination, Σ p ℓ. Those asleep stay as they
        are, and their losses are not read."""
        awake = np.asarray(active, dtype=bool)
        p = self.probability(awake)
        own = np.array([float(x) if a else 0.0 for x, a in zip(loss, awake, strict=True)])  # type: ignore[arg-type]
        mean = math.fsum((p * own).tolist())
        r = np.where(awake, mean - own, 0.0)
        self.regret = self.regret + r
        self.scale = self.scale + np.abs(r)
        return mean
