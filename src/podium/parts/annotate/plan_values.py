"""TODO A critic of three time scales, each read at a place of its own."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.core.signal import Signal
from podium.parts.objective.plan_value import HEADS, REFERENCE, head_positions

__all__ = ["PlanValues"]


OLD = {name: Signal("value", of="old", head=number) for number, name in enumerate(HEADS)}


class PlanValues(Annotate):
    """`turn.low.value`, `turn.high.value`, `turn.switch.value`: what the critic's three heads say of a turn."""

    reference = REFERENCE

    needs = (*OLD.values(), "token.plan_low")
    provides = tuple(f"turn.{name}.value" for name in HEADS)

    def __call__(self, batch: Batch) -> Columns:
        return {
            f"turn.{name}.value": batch.reduce(batch[OLD[name]], "token", "turn", "sum", where=at)
            for name, at in head_positions(batch).items()
        }
