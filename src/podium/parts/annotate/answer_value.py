"""The critic's value of a whole answer, as a column for the advantage to subtract."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Need
from podium.parts.objective.answer_value import REFERENCE, value_of

__all__ = ["AnswerValue"]


class AnswerValue(Annotate):
    """Writes `rollout.value`, the old critic's value at the last token of an answer.

    A critic of several heads is read through their soft minimum, which guards against overestimation.
    """

    reference = REFERENCE
    softmin: float | None = 0.3  # temperature of the soft minimum over the critic's heads, > 0; None: one head

    provides = ("rollout.value",)

    def __post_init__(self) -> None:
        within(self, "softmin", 0, open_low=True, optional=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (value_of("old", self.softmin),)

    def __call__(self, batch: Batch) -> Columns:
        last = batch.last("token", "rollout", where=batch.action)
        return {"rollout.value": batch.reduce(batch[self.needs[0]], "token", "rollout", "sum", where=last)}
