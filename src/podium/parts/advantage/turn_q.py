"""Turn-level advantages from a critic with twin Q and V heads."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Advantage, Columns
from podium.parts.objective.turn_critic import HEADS, REFERENCE

__all__ = ["TurnQ"]


class TurnQ(Advantage):
    """The advantage of a turn by the twin critics of `TurnCritic`: A = min(Q_1, Q_2) − min(V_1, V_2)."""

    reference = REFERENCE

    needs = tuple(f"turn.{name}" for name in HEADS)
    provides = ("turn.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        q, v = (torch.minimum(batch[f"turn.{x}1"], batch[f"turn.{x}2"]) for x in ("q", "v"))
        return {"turn.advantage": q - v}
