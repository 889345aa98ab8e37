"""The historical entropy of each turn of an episode, for entropy bands around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.signal import Signal

__all__ = ["TurnEntropies"]


ENTROPY = Signal("entropy", of="sampler")


class TurnEntropies(Memory):
    """The mean sampling entropy of the first, second, … turn, averaged over iterations (`batch.turn_entropy`).

    NaN before the first iteration. As released, an iteration with fewer than `turns` turns is padded with leading
    zeros, and of one with more the last turns count.
    """

    turns: int = 4  # ≥ 1

    needs = (ENTROPY,)
    provides = ("batch.turn_entropy",)

    def __post_init__(self) -> None:
        within(self, "turns", 1)

    def initial(self) -> State:
        return {"total": torch.zeros(self.turns, dtype=torch.float64), "iterations": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        mean = state["total"] / state["iterations"] if state["iterations"] else state["total"] * float("nan")
        return {"batch.turn_entropy": mean.reshape(1, -1)}

    def after(self, state: State, means: Tensor) -> State:
        """The state after an iteration with these mean entropies per turn."""
        last = means.to(dtype=torch.float64, device="cpu")[-self.turns :]
        return {
            "total": state["total"] + pad(last, (self.turns - len(last), 0)),
            "iterations": state["iterations"] + 1,
        }

    def observe(self, state: State, batch: Batch) -> State:
        numbers = batch.spread(batch.position("turn"), "turn", "token")
        tokens = batch.by("token", numbers).agg
        return self.after(state, tokens.mean(batch[ENTROPY])[tokens.count() > 0])
