"""Exploration over domains by inverse gaps, with exact propensities."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import within
from podium.core.part import Select
from podium.core.schedule import Number
from podium.parts.select.domains import domain_means
from podium.tables.inverse_gap import epoch_gamma, inverse_gap_probabilities

__all__ = ["InverseGap"]


class InverseGap(Select):
    """Draws the domain of each task by inverse gap weighting of predicted rewards (SquareCB), then a task of it.

        p(a) = 1 / (K + γ (f(b) − f(a))) for the K domains a other than the best one, b, which gets the rest;
        γ = scale · sqrt(K · n) after n groups

    f is what `ArmRewards` predicts. The draws of a batch are independent, so that the probability of each, p(a) divided
    by the tasks of the domain, is exact; it is logged as `rollout.propensity`. scale = 0 draws domains uniformly.
    """

    reference = "SquareCB, https://arxiv.org/abs/2002.04926; Contextual Bandits in Payment Processing (Adyen)"
    scale: Number = 1.0  # of γ, ≥ 0: larger is greedier
    uniform: Number = 0.0  # the share of draws whose domain is uniform, in [0, 1]

    needs = ("group.domain.code", "group.arm.value", "group.arm.samples")

    def __post_init__(self) -> None:
        within(self, "scale", 0)
        within(self, "uniform", 0, 1)

    def _domains(self, columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """[task] the number of its domain, and [domain] the probability of a draw."""
        domain, (value, samples) = domain_means(columns, ("group.arm.value", "group.arm.samples"))
        gamma = epoch_gamma(len(value), float(samples.clamp(min=0).sum()), float(self.scale))
        p = torch.from_numpy(inverse_gap_probabilities(value.numpy(), gamma))
        return domain, (1 - self.uniform) * p + self.uniform / len(value)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        domain, p = self._domains(columns)
        return (p / torch.bincount(domain))[domain]

    def propensities(self, columns: Mapping[str, Tensor]) -> Tensor:
        return self(columns)

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        domain, p = self._domains(columns)
        # Tasks have one uniform number each, whose further digits are as random: some decide on the domain, the rest on
        # the task.
        random = columns["group.random"].double()
        draws = random[torch.argsort(random, stable=True)].repeat(-(-count // len(random)))[:count]
        arm = torch.searchsorted(p.cumsum(0), (draws * 2**16) % 1.0).clamp(max=len(p) - 1)
        place = (draws * 2**34) % 1.0
        size = torch.bincount(domain)
        # The tasks of each domain one after another, in the order of their numbers.
        listed = torch.argsort(columns["group.number"], stable=True)
        listed = listed[torch.argsort(domain[listed], stable=True)]
        first = size.cumsum(0) - size
        return listed[first[arm] + (place * size[arm]).long()]
