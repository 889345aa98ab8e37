"""A curriculum over domains: more tasks from the domains whose rewards are furthest below target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from podium.core.errors import one_of, within
from podium.core.part import Select, repeated
from podium.core.schedule import Number

__all__ = ["ByDomain", "domain_means", "domain_shares", "next_of_domains", "next_weights"]


REFERENCE = "RuleReasoner, https://github.com/bigai-nlco/RuleReasoner"


def domain_shares(weight: Tensor, count: int, least: int = 0) -> Tensor:
    """[domain] How many of a batch's `count` tasks each domain gets: ⌊count · w⌋, the remainder to the highest weights.

    Every domain then gets at least `least`, taken from the domain with the most. In a batch too small for that the
    domains of the lowest weights get none.
    """
    n = (count * weight.double()).floor().long()
    order = torch.argsort(weight, descending=True, stable=True)
    for domain in repeated(order, int(count - n.sum())).tolist() if int(n.sum()) < count else ():
        n[domain] += 1
    for domain in order.tolist():
        while n[domain] < least and n.max() > max(least, int(n[domain]) + 1):
            n[n.argmax()] -= 1
            n[domain] += 1
    return n


def domain_means(columns: Mapping[str, Tensor], names: Sequence[str]) -> tuple[Tensor, list[Tensor]]:
    """[task] the number of its domain, and the means of columns over the tasks of each, [domain]."""
    codes, domain = torch.unique(columns["group.domain.code"], return_inverse=True)
    size = torch.bincount(domain).double()
    zeros = torch.zeros(len(codes), dtype=torch.float64)
    return domain, [zeros.scatter_add(0, domain, columns[name].double()) / size for name in names]


def next_weights(columns: Mapping[str, Tensor], domain: Tensor, weight: Tensor) -> Tensor:
    """[task] the weight of its domain, divided among those of its tasks that were visited least."""
    visits = columns["group.visits"].double()
    fewest = torch.full_like(weight, torch.inf).scatter_reduce(0, domain, visits, "amin")
    is_next = visits == fewest[domain]
    return weight[domain] * is_next / torch.bincount(domain[is_next], minlength=len(weight))[domain]


def next_of_domains(columns: Mapping[str, Tensor], domain: Tensor, shares: Sequence[int]) -> Tensor:
    """So many tasks of each domain, the least visited first and then in random order."""
    order = torch.argsort(columns["group.random"], stable=True)
    order = order[torch.argsort(columns["group.visits"][order], stable=True)]
    return torch.cat([repeated(order[domain[order] == d], n) for d, n in enumerate(shares) if n])


class ByDomain(Select):
    """Divides a batch among domains by softmax(deficit / temperature), the deficit being how far rewards lag a target.

    A domain's weight fixes its number of tasks (`domain_shares`). Within a domain tasks are visited without
    replacement in random order, then again from the start. Reads the deficits of `DomainRewards` and the visits of
    `PassRates`. Before any deficit is known the weights are given by `start`. A high temperature is uniform sampling.
    """

    reference = REFERENCE
    temperature: Number = 0.3  # > 0
    least: int = 1  # tasks that every domain gets in a batch
    start: str = "uniform"  # first weights, ∝ 1 (uniform), 1/√size (root) or e^(1/√size) (exponential)

    needs = ("group.domain.code", "group.domain.deficit", "group.domain.seen", "group.visits")
    read_by_loop = ("least",)

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)
        within(self, "least", 0)
        one_of(self, "start", ("uniform", "root", "exponential"))

    def first(self, size: Tensor) -> Tensor:
        """[domain] The weights before any deficit is known, from the number of tasks of each domain."""
        root = size.double().rsqrt()
        weight = {"uniform": torch.ones_like(root), "root": root, "exponential": root.exp()}[self.start]
        return weight / weight.sum()

    def weights(self, deficit: Tensor) -> Tensor:
        """[domain] The share of each domain in a batch."""
        return torch.softmax(deficit / self.temperature, 0)

    def _domains(self, columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """[task] The number of its domain, and [domain] the weights."""
        codes, domain = torch.unique(columns["group.domain.code"], return_inverse=True)
        if not bool(columns["group.domain.seen"].any()):
            return domain, self.first(torch.bincount(domain))
        by_task = columns["group.domain.deficit"].double()
        deficit = torch.full((len(codes),), -torch.inf, dtype=torch.float64).scatter_reduce(0, domain, by_task, "amax")
        return domain, self.weights(deficit)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        return next_weights(columns, *self._domains(columns))

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        domain, weight = self._domains(columns)
        return next_of_domains(columns, domain, domain_shares(weight, count, self.least).tolist())
