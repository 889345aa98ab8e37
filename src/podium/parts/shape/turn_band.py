"""A band around what the entropy of each turn has been so far."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number

__all__ = ["TurnBand"]


REFERENCE = "EPO, https://github.com/WujiangXu/EPO"


UNBOUNDED = 1e6  # nats: no entropy is so high


class TurnBand(Shape):
    """`token.band.low`, `token.band.high`: low · H̄_k and high · H̄_k, with H̄_k what the memory knows of turn k.

    Without bounds while nothing is known, and in a batch none of whose rollouts gets to the second half of the turns.
    """

    reference = REFERENCE
    low: Number = 0.8
    high: Number = 1.2

    needs = ("batch.turn_entropy",)
    provides = ("token.band.low", "token.band.high", "token.band.centre")

    def __post_init__(self) -> None:
        within(self, "low", 0)
        within(self, "high", 0)
        if not isinstance(self.high, (int, float)) or not isinstance(self.low, (int, float)):
            return
        if not self.low < self.high:
            raise PodiumError(f"TurnBand.low = {self.low} must be below high = {self.high}.")

    def __call__(self, batch: Batch) -> Columns:
        (known,) = batch["batch.turn_entropy"].to(batch.dtype)
        turn = batch.spread(batch.position("turn"), "turn", "token")
        centre = known[turn.clamp(max=len(known) - 1)]
        late = (turn >= len(known) // 2).any()
        bounded = torch.isfinite(centre) & late
        return {
            "token.band.low": (self.low * centre).where(bounded, -1),  # no entropy is so low
            "token.band.high": (self.high * centre).where(bounded, UNBOUNDED),
            "token.band.centre": centre.where(bounded, 0),
        }
