"""An update plan whose mini-batches have a fixed number of rollouts, so that the number of steps varies."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Need
from podium.core.updates import PolicyScore, Updates

__all__ = ["FixedSize"]


class FixedSize(Updates):
    """Mini-batches of a fixed size: as many rollouts (or groups) as 1/`mini_batches` of those where `of` is true.

    What a method adds to the batch or leaves out changes the number of steps, ⌈units / size⌉, of which the last may be
    smaller. `masked` says whether units that are not trained take places, too; `damped`, whether the loss of a smaller
    mini-batch is multiplied by the share of its places that is taken.
    """

    reference = "Hybrid Post-Training, https://arxiv.org/abs/2509.04419"
    unit: str = "rollout"
    of: str = "rollout.sampled"  # a boolean column of rollouts; a group counts if it has one
    masked: bool = False
    damped: bool = False

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Iterator[Batch]:
        counted = (
            batch.partition("rollout", self.unit).agg.any(batch[self.of]) if self.unit == "group" else batch[self.of]
        )
        size = max(-(-int(counted.sum()) // self.mini_batches), 1)
        for epoch in range(self.epochs):
            for units in torch.split(self._order(batch, epoch), size):
                update = batch.take(self.unit, units.sort().values)
                if self.damped:
                    share = torch.full((len(units),), len(units) / size, dtype=batch.dtype, device=batch.device)
                    update = update.with_columns({f"{self.unit}.weight.taken": share})
                if bool(update.trained(self.unit, empty=True).any()):
                    yield update

    def _order(self, batch: Batch, epoch: int) -> Tensor:
        units = batch.trained(self.unit, empty=True) | self.masked
        order = units.nonzero().reshape(-1)
        return order[torch.argsort(batch.random(self.unit, f"updates.{epoch}")[order])] if self.shuffle else order
