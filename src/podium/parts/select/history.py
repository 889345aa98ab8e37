"""How often each task was solved, visit by visit: rankings, and the hardest tasks in ever smaller sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError, within
from podium.core.part import Need, Select, repeated
from podium.parts.select.best import ordered

__all__ = ["HardFocus", "Mixed", "Ranked", "hardest", "unmeasured"]


UNKNOWN = -1.0  # a rate that has not been measured


class Ranked(Select):
    """The `shots` tasks of the highest `by`, copied to fill the batch: each copy is a group of its own.

    Of equal ones those of the lowest number are taken.
    """

    reference = "Reinforcement Learning for Reasoning with One Training Example, https://arxiv.org/abs/2504.20571"
    by: str = "group.pass_rate.spread"
    shots: int = 1  # tasks
    start: int = 0  # how many of the first ones are passed over

    def __post_init__(self) -> None:
        within(self, "shots", 1)
        within(self, "start", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.by, "group.number")

    def order(self, columns: Mapping[str, Tensor]) -> Tensor:
        """The numbers of the tasks, the first of the ranking first."""
        return ordered(columns[self.by], columns["group.number"])

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        chosen = self.order(columns)[self.start : self.start + self.shots]
        weight = torch.zeros(len(columns[self.by]), dtype=torch.float64)
        return weight.index_fill(0, chosen, 1.0)

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        return repeated(self.order(columns)[self.start : self.start + self.shots], count)


class Mixed(Select):
    """Tasks that had right and wrong answers at some visit, all alike; every task while there is none."""

    reference = "Skywork R1V2, https://arxiv.org/abs/2504.16656"

    needs = ("group.pass_rate.mixed",)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        mixed = columns["group.pass_rate.mixed"].double() > 0
        return (mixed | ~mixed.any()).double()


def hardest(rates: Tensor, number: Tensor, keep: Sequence[int]) -> list[Tensor]:
    """[task] whether it is in the set of each phase: of those in the set before, the `keep` lowest rates.

    `rates` [task, phase] are measured before each phase. Of equal ones those of the lowest number are kept, and all
    where there are fewer.
    """
    members, sets = torch.ones(len(rates), dtype=torch.bool), []
    for phase, wanted in enumerate(keep):
        rate = rates[:, phase].where(members, torch.inf)
        kept = ordered(-rate, number)[: min(wanted, int(members.sum()))]
        members = torch.zeros_like(members).index_fill(0, kept, True)
        sets.append(members)
    return sets


def unmeasured(known: Mapping[str, Any]) -> bool:
    """Whether a task lacks the measurement before the phase of today, by what `Sweeps` recalls of it."""
    rates = known.get("group.sweep.rates")
    return rates is not None and float(rates[int(known["batch.sweep.phase"])]) == UNKNOWN


class HardFocus(Select):
    """Phase k trains on the `keep[k]` hardest tasks of phase k − 1; before it begins, all of these are measured.

    The first phase begins with the `pool` tasks of the lowest numbers. No task comes back.
    """

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"
    keep: tuple[int, ...] = (72, 50, 25)  # tasks
    pool: int | None = 175  # tasks; None: all

    needs = ("group.sweep.rates", "batch.sweep.phase", "group.number")

    def __post_init__(self) -> None:
        within(self, "pool", 1, optional=True)
        if not self.keep or min(self.keep) < 1:
            raise PodiumError(f"HardFocus.keep = {self.keep}: give at least one task for each phase.")

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
            pool = ordered(-number, number).argsort() < self.pool
        # Outside the pool nothing counts, as if it were never solved less often than anything else.
        known = rates.where(pool[:, None], torch.inf)
        before = pool if phase == 0 else pool & hardest(known, number, self.keep[:phase])[-1]
        due = before & (rates[:, phase] == UNKNOWN)
        if bool(due.any()):
            return due.double()
        return (before & hardest(known, number, self.keep[: phase + 1])[-1]).double()
