"""Which steps of a rollout are trained."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Shape

__all__ = ["DropLongContexts", "TrainSteps"]


class TrainSteps(Shape):
    """Only the first step of each rollout, such as a plan, is trained, or only the steps after it."""

    which: str = "first"  # first or rest

    provides = ("step.keep.place",)

    def __post_init__(self) -> None:
        one_of(self, "which", ("first", "rest"))

    def __call__(self, batch: Batch) -> Columns:
        first = batch.position("step", "rollout") == 0
        return {"step.keep.place": first if self.which == "first" else ~first}


class DropLongContexts(Shape):
    """Turns with a context of more than `longest` tokens are not trained. They still count in the advantages."""

    longest: int = 18_432  # tokens

    needs = ("turn.train_context",)
    provides = ("turn.keep.context",)

    def __post_init__(self) -> None:
        within(self, "longest", 1)

    def __call__(self, batch: Batch) -> Columns:
        fits = [len(context) <= self.longest for context in batch["turn.train_context"]]
        return {"turn.keep.context": torch.tensor(fits, dtype=torch.bool, device=batch.device)}
