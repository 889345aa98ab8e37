"""More of the domains in which the policy is weak."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import one_of, within
from podium.core.part import Select, repeated
from podium.core.schedule import Number

__all__ = ["ByDomain", "domain_shares"]


REFERENCE = "RuleReasoner, https://github.com/bigai-nlco/RuleReasoner"


def domain_shares(weight: Tensor, count: int, least: int = 0) -> Tensor:
    """[domain] ⌊count · w⌋ places of a batch, those left over one each to the highest weights, at least `least`.

    The least is taken from whoever has most; in a batch that is too small for it, the lowest weights get nothing.
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


class ByDomain(Select):
    """Domains by softmax(deficit / temperature), tasks inside a domain in turn, in a random order.

    The number of tasks of a domain is fixed by its weight (`domain_shares`). A domain whose tasks have all been sampled begins
    again. Before the rewards are first looked at, domains are drawn alike, or by their number of tasks: 1/√size, or
    e^(1/√size), over its sum.
    """

    reference = REFERENCE
    temperature: Number = 0.3
    least: int = 1  # tasks of every domain
    start: str = "uniform"  # uniform, root (1/√size) or exponential (e^(1/√size))

    needs = ("group.domain.code", "group.domain.deficit", "group.domain.seen", "group.visits")
    read_by_loop = ("least",)

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)
        within(self, "least", 0)
        one_of(self, "start", ("uniform", "root", "exponential"))

    def first(self, size: Tensor) -> Tensor:
        """[domain] weights by the number of tasks."""
        root = size.double().rsqrt()
        weight = {"uniform": torch.ones_like(root), "root": root, "exponential": root.exp()}[self.start]
        return weight / weight.sum()

    def weights(self, deficit: Tensor) -> Tensor:
        """[domain]"""
        return torch.softmax(deficit / self.temperature, 0)

    def _domains(self, columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """[task] the number of its domain, and [domain] the weights."""
        codes, domain = torch.unique(columns["group.domain.code"], return_inverse=True)
        if not bool(columns["group.domain.seen"].any()):
            return domain, self.first(torch.bincount(domain))
        lacks = columns["group.domain.deficit"].double()
        deficit = torch.full((len(codes),), -torch.inf, dtype=torch.float64).scatter_reduce(0, domain, lacks, "amax")
        return domain, self.weights(deficit)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        domain, weight = self._domains(columns)
        visits = columns["group.visits"].double()
        fewest = torch.full_like(weight, torch.inf).scatter_reduce(0, domain, visits, "amin")
        next_ = visits == fewest[domain]
        return weight[domain] * next_ / torch.bincount(domain[next_], minlength=len(weight))[domain]

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        domain, weight = self._domains(columns)
        order = torch.argsort(columns["group.random"], stable=True)
        order = order[torch.argsort(columns["group.visits"][order], stable=True)]
        wanted = domain_shares(weight, count, self.least).tolist()
        parts = [repeated(order[domain[order] == d], n) for d, n in enumerate(wanted) if n]
        return torch.cat(parts)
