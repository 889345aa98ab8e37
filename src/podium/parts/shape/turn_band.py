"""A band around the historical entropy of each turn."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number

__all__ = ["TurnBand"]


REFERENCE = "EPO, https://github.com/WujiangXu/EPO"


UNBOUNDED = 1e6  # nats: above any entropy


class TurnBand(Shape):
    """Entropy band per turn: `token.band.low` = low · H̄_k and `token.band.high` = high · H̄_k in turn k.

    H̄_k is the mean entropy of turn k so far, from the memory. There is no band while it is unknown, nor in a batch none
    of whose rollouts reaches the second half of the turns.
    """

    reference = REFERENCE
    low: Number = 0.8  # of H̄, below high
    high: Number = 1.2  # of H̄

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
        (history,) = batch["batch.turn_entropy"].to(batch.dtype)  # [turn]
        turn = batch.spread(batch.position("turn"), "turn", "token")
        centre = history[turn.clamp(max=len(history) - 1)]
        late = (turn >= len(history) // 2).any()
        bounded = torch.isfinite(centre) & late
        return {
            "token.band.low": (self.low * centre).where(bounded, -1),  # below any entropy
            "token.band.high": (self.high * centre).where(bounded, UNBOUNDED),
            "token.band.centre": centre.where(bounded, 0),
        }
