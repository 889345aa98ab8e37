"""How to spread a budget of rollouts over tasks, from estimates of their success rates."""

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
    """1 − pⁿ − (1 − p)ⁿ: the probability that n rollouts contain both outcomes."""
    return 1 - p**n - (1 - p) ** n


def expected_failures(p: Tensor, n: Tensor) -> Tensor:
    """n (1 − p) (1 − (1 − p)ⁿ⁻¹): the expected number of failures in groups that also have a success."""
    return n * (1 - p) * (1 - (1 - p) ** (n - 1).clamp(min=0))


# The utility of n rollouts of a task with success rate p.
UTILITIES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mixed": mixed_probability,
    "failures": expected_failures,
}


def allocate(p: Tensor, total: int, least: int, most: int, utility: str = "mixed") -> Tensor:
    """[task] rollouts that add up to `total`: greedily, each one beyond `least` goes where it adds the most utility.

    No task gets more than `most`; ties go to the first task.
    """
    if total < least * len(p):
        raise PodiumError(
            f"A budget of {total} rollouts is too small for {len(p)} tasks with at least {least} each: "
            "raise it, or lower the number of tasks or the least."
        )
    value, device, p = UTILITIES[utility], p.device, p.double().clamp(0, 1)

    @cache
    def gains(n: int) -> list[float]:
        """[task] the utility that one more rollout adds to n."""
        counts = torch.full_like(p, n)
        added: list[float] = (value(p, counts + 1) - value(p, counts)).tolist()
        return added

    allocated = [least] * len(p)
    best = [(-gain, task) for task, gain in enumerate(gains(least))] if least < most else []
    heapify(best)
    for _ in range(min(total, most * len(p)) - least * len(p)):
        _, task = best[0]
        allocated[task] += 1
        if allocated[task] < most:
            heapreplace(best, (-gains(allocated[task])[task], task))
        else:
            heappop(best)
    return torch.tensor(allocated, device=device)


def mass(p: Tensor, std: bool = False) -> Tensor:
    """2 p (1 − p): the mean |A| of a rollout in a group of accuracy p; 2 √(p (1 − p)) where A is divided by the std."""
    return 2 * (p * (1 - p)).sqrt() if std else 2 * p * (1 - p)


def extra_rollouts(p: Tensor, n: int, most: int, schedule: str = "equal", std: bool = False) -> Tensor:
    """[task] how many rollouts beyond n raise a hard task's (p < 1/2) advantage mass to that of p = 1/2; `most` in all.

    The schedule `hardness` raises it to 2 (1 − p) times that. Without a success, p counts as half a success in n.
    """
    p = p.double()
    p = p.where(p > 1e-6, 0.5 / n)
    peak, per_rollout = n * mass(p.new_tensor(0.5), std), mass(p.clamp(max=0.5), std)
    goal = peak if schedule == "equal" else 2 * (1 - p) * peak
    extra = ((goal - n * per_rollout) / per_rollout).ceil().clamp(max=most - n)
    return extra.where(p < 0.5, 0).long()


def half_width(std: Tensor, n: Tensor, alpha: float = 0.05) -> Tensor:
    """t · s / √n: half the width of the 1 − alpha confidence interval of a mean; 0 for fewer than two values."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    freedom = (n.double() - 1).clamp(min=1)
    t = torch.as_tensor(stdtrit(freedom.numpy(), 1 - alpha / 2))
    return (t * std / n.double().sqrt()).where(n > 1, 0)


def exploration_bonus(n: Tensor, spent: float, strength: float = 1.0) -> Tensor:
    """strength · √(log(1 + T) / n), with T the rollouts spent on all tasks."""
    return strength * (math.log1p(spent) / n.double()).sqrt()
