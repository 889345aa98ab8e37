"""An update plan whose mini-batches have a fixed number of rollouts, so that the number of steps varies."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Need
from podium.core.updates import PolicyScore, Updates

__all__ = ["FixedSize"]


class FixedSize(Updates):
    """Mini-batches of a fixed size: as many rollouts as 1/`mini_batches` of those where `of` is true.

    Rollouts that a method adds or leaves out change the number of steps, ⌈rollouts / size⌉, of which the last may be
    smaller. `masked` says whether rollouts that are not trained take places, too; `damped`, whether the loss of a
    smaller mini-batch is multiplied by the share of its places that is taken.
    """

    reference = "Hybrid Post-Training, https://arxiv.org/abs/2509.04419"
    unit: str = "rollout"
    of: str = "rollout.sampled"  # a boolean column of rollouts
    masked: bool = False
    damped: bool = False

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "unit", ("rollout",))

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Iterator[Batch]:
        size = max(-(-int(batch[self.of].sum()) // self.mini_batches), 1)
        for epoch in range(self.epochs):
            for rows in torch.split(self._order(batch, epoch), size):
                update = batch.take("rollout", rows.sort().values)
                if self.damped:
                    share = torch.full((len(rows),), len(rows) / size, dtype=batch.dtype, device=batch.device)
                    update = update.with_columns({"rollout.weight.taken": share})
                if bool(update.trained("rollout", empty=True).any()):
                    yield update

    def _order(self, batch: Batch, epoch: int) -> Tensor:
        if not self.masked:
            return super()._order(batch, epoch)
        order = torch.arange(len(batch), device=batch.device)
        return order[torch.argsort(batch.random("rollout", f"updates.{epoch}"))] if self.shuffle else order
