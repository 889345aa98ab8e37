"""Selection by predicted learning curves: more tasks of the domains that still improve."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import within
from podium.core.part import Select
from podium.parts.select.domains import domain_means, domain_shares, next_of_domains, next_weights
from podium.tables.allocation import PowerLaw, greedy_allocation

__all__ = ["MarginalGain"]

CURVE = ("group.curve.floor", "group.curve.scale", "group.curve.exponent", "group.curve.groups")


class MarginalGain(Select):
    """Divides a batch among domains by the predicted fall of their failure rates.

        e(n) = floor + scale · n^(−exponent) after n groups of a domain; each of the batch's groups goes to the domain
        with the largest e(n) − e(n + 1)

    The curves are those of `LearningCurves`. Every domain gets at least `least` tasks, so that its curve stays known;
    while no curve falls, domains get equal shares. Identical domains are equalised.
    """

    reference = (
        "Adaptive Sampling Strategies to Construct Equitable Training Datasets, https://arxiv.org/abs/2202.01327"
    )
    least: int = 1  # tasks that every domain gets in a batch

    needs = ("group.domain.code", *CURVE, "group.visits")
    read_by_loop = ("least",)

    def __post_init__(self) -> None:
        within(self, "least", 0)

    def shares(self, columns: Mapping[str, Tensor], count: int) -> tuple[Tensor, Tensor]:
        """[task] the number of its domain, and [domain] how many tasks of a batch it gets."""
        domain, (floor, scale, exponent, groups) = domain_means(columns, CURVE)
        laws = zip(floor.tolist(), scale.tolist(), exponent.tolist(), strict=True)
        curves = [PowerLaw(*row) for row in laws]
        start, equal = groups.clamp(min=1.0), torch.ones(len(curves), dtype=torch.float64)
        bought = greedy_allocation(curves, start, equal, equal, budget=count)
        more = torch.from_numpy(bought.counts) - start
        weight = more if float(more.sum()) > 0 else equal
        return domain, domain_shares(weight / weight.sum(), count, self.least)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        count = len(columns["group.domain.code"])
        domain, shares = self.shares(columns, count)
        return next_weights(columns, domain, shares.double() / count)

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        domain, shares = self.shares(columns, count)
        return next_of_domains(columns, domain, shares.tolist())
