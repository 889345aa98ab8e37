"""The scale of log-entropies, for a sampling temperature that depends on the entropy of the next token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.signal import Signal
from podium.parts.shape.heterogeneous import scales

__all__ = ["EntropyScales"]


class EntropyScales(Memory):
    """The scale of the last batch's log-entropies, for entropy-dependent sampling temperatures (`Warmth`).

    Schedules follow `warmth.pivot`, the quantile that separates low from high entropies, and the slopes `warmth.above`
    and `warmth.below` of the temperature on either side of it. Before the first batch the slopes are 0.
    """

    reference = "HAPO, https://github.com/starriver030515/HAPO"
    pivot: float = 0.8  # quantile, in [0, 1]
    sign: str = "intended"  # of the slopes: as the paper intends, or as released (released)

    needs = (Signal("entropy", of="old"),)
    provides = ("batch.warmth.pivot", "batch.warmth.above", "batch.warmth.below")

    def __post_init__(self) -> None:
        within(self, "pivot", 0, 1)
        one_of(self, "sign", ("intended", "released"))

    def initial(self) -> State:
        return {"pivot": 0.0, "above": 0.0, "below": 0.0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {f"batch.{name}": torch.tensor([x]) for name, x in self.scalars(state).items()}

    def observe(self, state: State, batch: Batch) -> State:
        if not bool(batch.trained("token").any()):
            return state
        values = scales(batch, batch[Signal("entropy", of="old")].double(), self.pivot, self.sign)
        return {name: float(x[0]) for name, x in zip(("pivot", "above", "below"), values, strict=True)}

    def scalars(self, state: State) -> dict[str, float]:
        return {f"warmth.{name}": x for name, x in state.items()}
