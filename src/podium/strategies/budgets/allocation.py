"""How many rollouts a task deserves, from an estimate of its rate of success."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from heapq import heapify, heappop, heapreplace

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = [
    "UTILITIES",
    "allocate",
    "expected_failures",
    "exploration_bonus",
    "extra_rollouts",
    "half_width",
    "mass",
    "mixed_probability",
]


def mixed_probability(p: Tensor, n: Tensor) -> Tensor:
    """1 − pⁿ − (1 − p)ⁿ: how likely n rollouts have both outcomes."""
    return 1 - p**n - (1 - p) ** n


def expected_failures(p: Tensor, n: Tensor) -> Tensor:
    """n (1 − p) (1 − (1 − p)ⁿ⁻¹): failures that are expected in a group that also has a success."""
    return n * (1 - p) * (1 - (1 - p) ** (n - 1).clamp(min=0))


# What n rollouts of a task with success rate p are worth.
UTILITIES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mixed": mixed_probability,
    "failures": expected_failures,
}


def allocate(p: Tensor, total: int, least: int, most: int, utility: str = "mixed") -> Tensor:
    """[task] rollouts that add up to `total`: all begin with `least`, then one after another goes where it adds most.

    No task gets more than `most`; of equal gains the first task's counts.
    """
    if total < least * len(p):
        raise PodiumError(
            f"A budget of {total} rollouts is too small for {len(p)} tasks with at least {least} each: "
            "raise it, or lower the number of tasks or the least."
        )
    worth, device, p = UTILITIES[utility], p.device, p.double().clamp(0, 1)

    @cache
    def gains(n: int) -> list[float]:
        """What one more rollout adds to each task that has n."""
        before = torch.full_like(p, n)
        found: list[float] = (worth(p, before + 1) - worth(p, before)).tolist()
        return found

    given = [least] * len(p)
    best = [(-gain, task) for task, gain in enumerate(gains(least))] if least < most else []
    heapify(best)
    for _ in range(min(total, most * len(p)) - least * len(p)):
        _, task = best[0]
        given[task] += 1
        if given[task] < most:
            heapreplace(best, (-gains(given[task])[task], task))
        else:
            heappop(best)
    return torch.tensor(given, device=device)


def mass(p: Tensor, std: bool = False) -> Tensor:
    """2 p (1 − p): what a rollout of a group of accuracy p adds to Σ |A|; with division by the std 2 √(p (1 − p))."""
    return 2 * (p * (1 - p)).sqrt() if std else 2 * p * (1 - p)


def extra_rollouts(p: Tensor, n: int, most: int, schedule: str = "equal", std: bool = False) -> Tensor:
    """[task] how many rollouts more than n lift the mass of a hard task (p < 1/2) to that of p = 1/2; `most` in all.

    `hardness` lifts it to 2 (1 − p) times that. Without a success p counts as half a success in n.
    """
    p = p.double()
    p = p.where(p > 1e-6, 0.5 / n)
    peak, own = n * mass(p.new_tensor(0.5), std), mass(p.clamp(max=0.5), std)
    goal = peak if schedule == "equal" else 2 * (1 - p) * peak
    extra = ((goal - n * own) / own).ceil().clamp(max=most - n)
    return extra.where(p < 0.5, 0).long()


def half_width(std: Tensor, n: Tensor, alpha: float = 0.05) -> Tensor:
    """t · s / √n: half of the 1 − alpha confidence interval of a mean; 0 for fewer than two values."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    freedom = (n.double() - 1).clamp(min=1)
    t = torch.as_tensor(stdtrit(freedom.numpy(), 1 - alpha / 2))
    return (t * std / n.double().sqrt()).where(n > 1, 0)


def exploration_bonus(n: Tensor, spent: float, strength: float = 1.0) -> Tensor:
    """strength · √(log(1 + T) / n), T the rollouts spent on all tasks."""
    return strength * (math.log1p(spent) / n.double()).sqrt()
