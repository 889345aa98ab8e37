"""Turn-level advantages by a critic as it is at each update."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Shape, stop_gradient
from podium.parts.objective.turn_critic import LATEST, REFERENCE, turn_values

__all__ = ["LatestTurnQ"]


class LatestTurnQ(Shape):
    """The advantage of a turn by the twin critics as they are at the update: A = min(Q_1, Q_2) − min(V_1, V_2).

    After the epochs in which the critic learns alone, the policy is then trained on what the critic has learned in
    them. `TurnQ` takes the values from before the first update.
    """

    reference = REFERENCE

    needs = tuple(LATEST.values())
    provides = ("turn.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        values = turn_values(batch, LATEST, batch.action)
        q, v = (torch.minimum(values[f"{x}1"], values[f"{x}2"]) for x in ("q", "v"))
        return {"turn.advantage": stop_gradient(q - v)}
