"""TODO One value for a whole answer: what the critic says before its last token."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Need
from podium.parts.objective.answer_value import REFERENCE, value_of

__all__ = ["AnswerValue"]


class AnswerValue(Annotate):
    """`rollout.value`: the critic's value of an answer, before its last token."""

    reference = REFERENCE
    softmin: float | None = 0.3  # the temperature of the minimum over the critic's heads; None: it has one head

    provides = ("rollout.value",)

    def __post_init__(self) -> None:
        within(self, "softmin", 0, open_low=True, optional=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (value_of("old", self.softmin),)

    def __call__(self, batch: Batch) -> Columns:
        last = batch.last("token", "rollout", where=batch.action)
        return {"rollout.value": batch.reduce(batch[self.needs[0]], "token", "rollout", "sum", where=last)}
