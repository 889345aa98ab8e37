"""The values of a hierarchical critic: of the action, of the subgoal and of switching the subgoal."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.core.signal import Signal
from podium.parts.objective.plan_value import HEADS, REFERENCE, head_positions

__all__ = ["PlanValues"]


# The signal of each head of the critic, before any update of this iteration.
OLD = {name: Signal("value", of="old", head=number) for number, name in enumerate(HEADS)}


class PlanValues(Annotate):
    """Writes the values of a three-headed critic per turn: `turn.low.value`, `turn.high.value`, `turn.switch.value`.

    Each head is read at its own token of the turn (`token.plan_low` and what `head_positions` derives from it).
    """

    reference = REFERENCE

    needs = (*OLD.values(), "token.plan_low")
    provides = tuple(f"turn.{name}.value" for name in HEADS)

    def __call__(self, batch: Batch) -> Columns:
        return {
            f"turn.{name}.value": batch.reduce(batch[OLD[name]], "token", "turn", "sum", where=at)
            for name, at in head_positions(batch).items()
        }
