"""Turns in which nothing happens."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Keep, Need

__all__ = ["DropVoidTurns"]


class DropVoidTurns(Keep):
    """Leaves turns with neither a call nor an answer out of the loss; the rollout still counts in its group.

    The answer of a rollout is taken to stand in its last turn.
    """

    reference = "SPEAR, https://github.com/TencentYoutuResearch/SPEAR"
    calls: str = "turn.calls"  # a column of turns: the calls, or whether there was one

    provides = ("turn.keep.void",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.calls, "rollout.answer")

    def __call__(self, batch: Batch) -> Columns:
        called = torch.tensor([bool(calls) for calls in batch[self.calls]], device=batch.device)
        answered = torch.tensor([bool(answer) for answer in batch["rollout.answer"]], device=batch.device)
        at_end = batch.last("turn", "rollout") & batch.spread(answered, "rollout", "turn")
        return {"turn.keep.void": called | at_end}
