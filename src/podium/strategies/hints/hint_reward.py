"""The reward of a hint: how useful it is to the solver, which is what the model that wrote it learns from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from podium.core.errors import one_of, within
from podium.core.value import Value

__all__ = ["HintReward"]


class HintReward(Value):
    """R = base · e^{min(d, 0) / temperature}: high if rollouts with the hint have mixed outcomes and hardly rely on it.

    With p the success rate of N rollouts, base is 1 − pᴺ − (1 − p)ᴺ (`mixed`: the chance that outcomes differ) or
    p (1 − p) (`variance`). The reliance d is the mean over the successes of log π(answer without the hint) −
    log π(answer with it), per token: negative where the answer relies on the hint. A hint that breaks a rule gets
    `penalty`.
    """

    reference = "HiLL: Learning to Hint for Reinforcement Learning, https://github.com/Andree-9/HiLL"
    base: str = "mixed"  # mixed or variance
    temperature: float | None = 0.3  # of the factor for reliance, above 0; None: no such factor
    penalty: float = -0.2
    success: float = 0.5  # a reward above it is a success

    def __post_init__(self) -> None:
        one_of(self, "base", ("mixed", "variance"))
        within(self, "temperature", 0, open_low=True, optional=True)

    def spread(self, rewards: Sequence[float]) -> float:
        """The base of a group with these rewards; 0 where all succeed or none does."""
        n = len(rewards)
        p = sum(r > self.success for r in rewards) / n if n else 0.0
        if p in (0.0, 1.0):
            return 0.0
        return 1 - p**n - (1 - p) ** n if self.base == "mixed" else p * (1 - p)

    def reliance(self, rewards: Sequence[float], without: Sequence[float], with_: Sequence[float]) -> float | None:
        """d from the mean log-probabilities of each answer without and with the hint; None if none succeeded."""
        gaps = [a - b for r, a, b in zip(rewards, without, with_, strict=True) if r > self.success]
        return sum(gaps) / len(gaps) if gaps else None

    def __call__(
        self, rewards: Sequence[float], reliance: float | None, allowed: bool = True, before: Sequence[float] = ()
    ) -> float:
        """The reward of a hint with which rollouts got `rewards`, and without which they got those of `before`."""
        if not allowed:
            return self.penalty
        base = self.spread(rewards)
        if base <= self.spread(before):
            return 0.0
        if self.temperature is None:
            return base
        return 0.0 if reliance is None else base * math.exp(min(reliance, 0.0) / self.temperature)
