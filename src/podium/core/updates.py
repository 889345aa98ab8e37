"""The update plan: which groups or rollouts each optimiser step trains on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.facts import RunFacts
from podium.core.part import Part
from podium.core.schedule import Number

__all__ = ["PolicyScore", "Updates"]


PolicyScore = Callable[[Batch], Tensor]  # [token] the log-probabilities under the policy as it is when asked


class Updates(Part):
    """`epochs` passes over the batch, each in `mini_batches` optimiser steps on whole groups (or rollouts)."""

    stage = "updates"
    epochs: int = 1  # at least 1
    mini_batches: int = 1  # optimiser steps per epoch, at least 1
    unit: str = "group"  # what a mini-batch never splits: group or rollout
    shuffle: bool = True  # whether units are shuffled before they are split into mini-batches
    skip_above: Number | None = None  # steps with a larger gradient norm are skipped; None: none are

    read_by_loop = ("skip_above",)

    def __post_init__(self) -> None:
        within(self, "epochs", 1)
        within(self, "mini_batches", 1)
        within(self, "skip_above", 0, open_low=True, optional=True)
        one_of(self, "unit", ("group", "rollout"))

    def inert(self, facts: RunFacts) -> Iterable[str]:
        if self.unit == "group" and self.mini_batches > facts.tasks:
            yield (
                f"splits a batch into {self.mini_batches} mini-batches of whole groups, and an iteration has "
                f"{facts.tasks} tasks: at most so many steps are taken. Set tasks to at least {self.mini_batches}."
            )

    @property
    def passes(self) -> int:
        """The number of passes over a batch."""
        return self.epochs

    @property
    def single(self) -> bool:
        """Whether a batch is trained in one optimiser step, at which the old policy is still the current one."""
        return self.epochs * self.mini_batches == 1

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Iterator[Batch]:
        """The batches of the successive optimiser steps; units that are not trained are in none of them.

        A plan may call `score` between two steps for the log-probabilities of the policy at that point.
        """
        for epoch in range(self.epochs):
            order = self._order(batch, epoch)
            for units in order.tensor_split(min(self.mini_batches, len(order))) if len(order) else ():
                yield batch.take(self.unit, units.sort().values)

    def _order(self, batch: Batch, epoch: int) -> Tensor:
        units = batch.trained(self.unit, empty=True).nonzero().reshape(-1)
        if self.shuffle and self.mini_batches > 1:
            return units[torch.argsort(batch.random(self.unit, f"updates.{epoch}")[units])]
        return units
