"""Two stages of difficulty: the easier tiers in equal shares, then what is still failed, mixed with the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import within
from podium.core.part import Select, repeated
from podium.core.schedule import Number
from podium.parts.select.history import UNKNOWN

__all__ = ["EasierTiers", "HardMix"]

REFERENCE = "Fleming-R1, https://github.com/UbiquantAI/Fleming-R1"


class EasierTiers(Select):
    """Draws tasks of some tiers, in equal shares; the tier of a task is its domain.

    While there is no such task, all tasks are drawn with equal probability.
    """

    reference = REFERENCE
    tiers: tuple[str, ...] = ("easy", "moderate")  # domains of the world

    needs = ("group.domain",)

    def pool(self, domains: Sequence[str]) -> Tensor:
        """[task] Whether it belongs to one of these tiers."""
        return torch.tensor([domain in self.tiers for domain in domains], dtype=torch.bool)

    def __call__(self, columns: Mapping[str, Any]) -> Tensor:
        domains: Sequence[str] = columns["group.domain"]
        pool, sizes = self.pool(domains), Counter(domains)
        if not bool(pool.any()):
            return torch.ones(len(domains), dtype=torch.float64)
        share = torch.tensor([1 / sizes[domain] for domain in domains], dtype=torch.float64).where(pool, 0)
        return share / share.sum()


class HardMix(Select):
    """`share` of a batch are hard tasks, whose pass rate was at most `at_most`, and the rest are the others.

    The rates are measured anew before each round (`Sweeps`); while some are missing, those tasks are drawn. Where one
    kind has too few tasks, the other fills the batch. share = 0 draws only tasks that are not hard.
    """

    reference = REFERENCE
    at_most: Number = 0.25  # a pass rate, in [0, 1]
    share: Number = 0.75  # of hard tasks, in [0, 1]

    needs = ("group.sweep.rates", "batch.sweep.phase")

    def __post_init__(self) -> None:
        within(self, "at_most", 0, 1)
        within(self, "share", 0, 1)

    def rates(self, columns: Mapping[str, Tensor]) -> Tensor:
        """[task] The rates of this round; `UNKNOWN` where one is still to be measured."""
        phase = int(columns["batch.sweep.phase"][0])
        rates: Tensor = columns["group.sweep.rates"][:, phase]
        return rates

    def hard(self, rate: Tensor) -> Tensor:
        """[task] Whether it still fails."""
        return (rate <= self.at_most) & (rate != UNKNOWN)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        rate = self.rates(columns)
        due, hard = rate == UNKNOWN, self.hard(rate)
        if bool(due.any()):
            return due.double()
        weight = torch.zeros(len(rate), dtype=torch.float64)
        for kind, share in ((hard, self.share), (~hard, 1 - self.share)):
            weight = torch.where(kind, share / kind.sum().clamp(min=1), weight)
        return weight / weight.sum() if bool(weight.sum() > 0) else torch.ones_like(weight)

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        rate = self.rates(columns)
        order = torch.argsort(columns["group.random"], stable=True)
        due, hard = rate == UNKNOWN, self.hard(rate)
        if bool(due.any()):
            return repeated(order[due[order]], count)
        failed, others = order[hard[order]], order[~hard[order]]
        wanted = min(round(self.share * count), count) if len(others) else count
        wanted = wanted if len(failed) else 0
        parts = [repeated(tasks, n) for tasks, n in ((failed, wanted), (others, count - wanted)) if n]
        return torch.cat(parts)
