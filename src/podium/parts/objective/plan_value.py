"""Value regression for a hierarchical critic: one head each for actions, subgoals and switches."""

from __future__ import annotations

from dataclasses import field

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.signal import Signal
from podium.core.term import Term

__all__ = ["PlanValueLoss"]


REFERENCE = "HiPER, https://github.com/JonP07/HiPER-agent"


HEADS = ("low", "high", "switch")


NOW = {name: Signal("value", of="now", grad=True, head=number) for number, name in enumerate(HEADS)}


def head_positions(batch: Batch) -> dict[str, Tensor]:
    """[token] where each head is read: `low` after the subgoal, `high` and `switch` at the first token of a turn."""
    first = batch.first("token", "turn", where=batch.action)
    return {"low": batch["token.plan_low"], "high": first, "switch": first}


class PlanValueLoss(Term):
    """Hierarchical value regression: Σ over the heads of ½ (V − R)², at the token where each head is read.

    The head `high`, the value of a subgoal, learns only in turns that begin a new one.
    """

    reference = REFERENCE
    overflows = "it squares the distance of values from returns"
    trains: str = field(default="critic", kw_only=True)

    needs = (*NOW.values(), *(f"turn.{name}.return" for name in HEADS), "turn.switch", "token.plan_low")

    def loss(self, batch: Batch) -> Tensor:
        begins = batch.spread(batch["turn.switch"] | batch.first("turn"), "turn", "token")
        errors = []
        for name, at in head_positions(batch).items():
            error = batch[NOW[name]] - batch.spread(batch[f"turn.{name}.return"], "turn", "token")
            errors.append(error.square().where(at & begins if name == "high" else at, 0) / 2)
        return torch.stack(errors).sum(0)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"value.loss": self.loss(batch)}
