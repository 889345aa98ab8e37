"""A band around what the entropy of each turn has been so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.memory import Memory, State
from podium.core.part import Columns, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["TurnBand", "TurnEntropies"]

REFERENCE = "EPO, https://github.com/WujiangXu/EPO"
ENTROPY = Signal("entropy", of="sampler")
UNBOUNDED = 1e6  # nats: no entropy is so high


class TurnEntropies(Memory):
    """The mean over iterations of the mean sampling entropy of the first, second, … turn; unknown before the first.

    An iteration with fewer than `turns` turns has zeros before them, of one with more the last ones count, as in the
    release.
    """

    turns: int = 4  # K

    needs = (ENTROPY,)
    provides = ("batch.turn_entropy",)

    def __post_init__(self) -> None:
        within(self, "turns", 1)

    def initial(self) -> State:
        return {"total": torch.zeros(self.turns, dtype=torch.float64), "iterations": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        known = state["total"] / state["iterations"] if state["iterations"] else state["total"] * float("nan")
        return {"batch.turn_entropy": known.reshape(1, -1)}

    def after(self, state: State, means: Tensor) -> State:
        """The state after an iteration whose turns have had these mean entropies."""
        last = means.to(dtype=torch.float64, device="cpu")[-self.turns :]
        return {
            "total": state["total"] + pad(last, (self.turns - len(last), 0)),
            "iterations": state["iterations"] + 1,
        }

    def observe(self, state: State, batch: Batch) -> State:
        numbers = batch.spread(batch.position("turn"), "turn", "token")
        tokens = batch.by("token", numbers).agg
        return self.after(state, tokens.mean(batch[ENTROPY])[tokens.count() > 0])


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
