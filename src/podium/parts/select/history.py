"""Selection by the history of pass rates: rankings, tasks with mixed outcomes, and a curriculum of hard tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError, within
from podium.core.part import Need, Select, repeated
from podium.parts.select.scored import descending

__all__ = ["HardFocus", "MixedOutcomes", "NotMastered", "Ranked", "hardest", "unmeasured"]


UNKNOWN = -1.0  # stands for a pass rate that has not been measured


class Ranked(Select):
    """Trains on the `shots` tasks that rank highest by a column, repeated to fill the batch.

    Each copy is a group of its own. Ties go to the task with the lowest number. shots = 1 is one-shot RLVR.
    """

    reference = "Reinforcement Learning for Reasoning with One Training Example, https://arxiv.org/abs/2504.20571"
    by: str = "group.pass_rate.spread"  # the column to rank by, highest first
    shots: int = 1  # tasks, ≥ 1
    start: int = 0  # how many of the highest-ranked tasks are skipped

    def __post_init__(self) -> None:
        within(self, "shots", 1)
        within(self, "start", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.by, "group.number")

    def order(self, columns: Mapping[str, Tensor]) -> Tensor:
        """The indices of the tasks, highest-ranked first."""
        return descending(columns[self.by], columns["group.number"])

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        chosen = self.order(columns)[self.start : self.start + self.shots]
        weight = torch.zeros(len(columns[self.by]), dtype=torch.float64)
        return weight.index_fill(0, chosen, 1.0)

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        return repeated(self.order(columns)[self.start : self.start + self.shots], count)


class MixedOutcomes(Select):
    """Draws uniformly from the tasks that had both right and wrong answers at some visit.

    While there is no such task, all tasks are drawn with equal probability. Reads `PassRates`.
    """

    reference = "Skywork R1V2, https://arxiv.org/abs/2504.16656"

    needs = ("group.pass_rate.mixed",)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        mixed = columns["group.pass_rate.mixed"].double() > 0
        return (mixed | ~mixed.any()).double()


def hardest(rates: Tensor, number: Tensor, keep: Sequence[int]) -> list[Tensor]:
    """[task] For each phase, whether the task is one of the `keep[phase]` hardest of the previous phase's tasks.

    `rates` [task, phase] are measured before each phase. Ties go to the lowest number; a previous phase with fewer
    tasks than that is kept whole.
    """
    members, sets = torch.ones(len(rates), dtype=torch.bool), []
    for phase, size in enumerate(keep):
        rate = rates[:, phase].where(members, torch.inf)
        kept = descending(-rate, number)[: min(size, int(members.sum()))]
        members = torch.zeros_like(members).index_fill(0, kept, True)
        sets.append(members)
    return sets


def unmeasured(recalled: Mapping[str, Any]) -> bool:
    """Whether a task still needs its pass rate measured for the current phase, by what `Sweeps` recalls of it."""
    rates = recalled.get("group.sweep.rates")
    return rates is not None and float(rates[int(recalled["batch.sweep.phase"])]) == UNKNOWN


class NotMastered(Select):
    """No-positive-resampling: a task whose pass rate has once reached `at_least` is not drawn again.

    The others are drawn with equal probability; all of them are while none is left. Reads `PassRates`.
    """

    reference = "The Art of Scaling Reinforcement Learning Compute for LLMs, https://arxiv.org/abs/2510.13786"
    at_least: float = 0.9  # a pass rate, in (0, 1]

    needs = ("group.pass_rate.highest",)

    def __post_init__(self) -> None:
        within(self, "at_least", 0, 1, open_low=True)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        open_ = columns["group.pass_rate.highest"].double() < self.at_least
        return (open_ | ~open_.any()).double()


class HardFocus(Select):
    """A curriculum that narrows to the hardest tasks: phase k trains on the `keep[k]` hardest tasks of phase k − 1.

    Before each phase the pass rates of the previous phase's tasks are measured anew (`Sweeps`); the first phase starts
    from the `pool` tasks with the lowest numbers. A task that was dropped does not return.
    """

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"
    keep: tuple[float, ...] = (72, 50, 25)  # tasks of each phase; below 1: a share of the pool
    pool: int | None = 175  # tasks to start from; None: all

    needs = ("group.sweep.rates", "batch.sweep.phase", "group.number")

    def __post_init__(self) -> None:
        within(self, "pool", 1, optional=True)
        if not self.keep or min(self.keep) <= 0:
            raise PodiumError(f"HardFocus.keep = {self.keep}: give at least one task for each phase, or a share.")

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        rates, number, phase = (
            columns["group.sweep.rates"],
            columns["group.number"],
            int(columns["batch.sweep.phase"][0]),
        )
        if rates.shape[1] != len(self.keep):
            raise PodiumError(f"HardFocus keeps {len(self.keep)} sets, but Sweeps measures {rates.shape[1]} times.")
        pool = torch.ones(len(rates), dtype=torch.bool)
        if self.pool is not None:
            pool = descending(-number, number).argsort() < self.pool
        keep = [int(size) if size >= 1 else max(round(size * int(pool.sum())), 1) for size in self.keep]
        # A task outside the pool must never rank among the hardest: its rate counts as infinite.
        in_pool = rates.where(pool[:, None], torch.inf)
        before = pool if phase == 0 else pool & hardest(in_pool, number, keep[:phase])[-1]
        due = before & (rates[:, phase] == UNKNOWN)
        if bool(due.any()):
            return due.double()
        return (before & hardest(in_pool, number, keep[: phase + 1])[-1]).double()
