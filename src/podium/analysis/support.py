"""What a trained model can still solve, and what it has lost: supports compared with the model it began as."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from podium.parts.metric.entropies import shannon

__all__ = ["Support", "answer_entropy", "detectability", "support_change"]


@dataclass(frozen=True)
class Support:
    """Tasks by which of two models solves them at least once within its samples."""

    preserved: int  # both
    expanded: int  # only the trained one
    shrunk: int  # only the base
    out_of_support: int  # neither

    @property
    def retention(self) -> float:
        """The share of the base's support that is kept."""
        return _share(self.preserved, self.preserved + self.shrunk)

    @property
    def discovery(self) -> float:
        """The share of the trained model's support that is new."""
        return _share(self.expanded, self.preserved + self.expanded)

    @property
    def dynamic_score(self) -> float:
        """The harmonic mean of retention and discovery."""
        return _share(2 * self.retention * self.discovery, self.retention + self.discovery)

    @property
    def net_change(self) -> float:
        """What was won minus what was lost, over all tasks that either model solves."""
        return _share(self.expanded - self.shrunk, self.preserved + self.expanded + self.shrunk)


def support_change(base_correct: Sequence[int], trained_correct: Sequence[int]) -> Support:
    """From how many samples of each task were right, under the model before and after training."""
    pairs = [(base > 0, trained > 0) for base, trained in zip(base_correct, trained_correct, strict=True)]
    count = Counter(pairs)
    return Support(count[True, True], count[False, True], count[True, False], count[False, False])


def detectability(samples: int, zeta: float = 0.05) -> float:
    """1 − zeta^(1/samples): a solution rarer than this is missed with probability zeta or more."""
    return -math.expm1(math.log(zeta) / samples)


def answer_entropy(answers: Sequence[Hashable]) -> float:
    """How spread out the answers to one task are."""
    return shannon(Counter(answers).values())


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
