"""A KL penalty inside the advantage, centred over the batch."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["CentredKL"]

OLD = Signal("logp", of="old")


class CentredKL(Shape):
    """Centred KL penalty in the advantage: A_t = A − beta · (d_t − d̄), d_t = log π_old − log π_anchor.

    d̄ is the mean of d over the trained tokens of the batch, so the penalty moves credit between tokens and has no
    effect on its sum. Untrained tokens get 0.
    """

    reference = (
        "T1: Advancing Language Model Reasoning through RL and Inference Scaling, https://arxiv.org/abs/2501.11651"
    )
    beta: Number = 2e-4  # the strength of the penalty; 0: none
    anchor: str = "anchor"  # a role

    provides = ("token.advantage", "token.anchor.distance")

    def __post_init__(self) -> None:
        within(self, "beta", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", OLD, Signal("logp", of=self.anchor))

    def distance(self, batch: Batch) -> Tensor:
        """[token] d."""
        return batch[OLD] - batch[Signal("logp", of=self.anchor)]

    def __call__(self, batch: Batch) -> Columns:
        d = self.distance(batch)
        centred = batch.partition("token", "batch").centre(d, batch.trained("token"))
        moved = batch["token.advantage"] - self.beta * centred
        return {"token.advantage": moved.where(batch.trained("token"), 0), "token.anchor.distance": d}
