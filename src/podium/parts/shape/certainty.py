"""More weight where a teacher is sure."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Shape, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["TeacherCertainty"]


class TeacherCertainty(Shape):
    """w = e^{−beta·H} / mean of it, with H the teacher's entropy, over the trained tokens of `where`; 1 elsewhere.

    The mean weight is 1 whatever beta is.
    """

    reference = "SRPO: Group-Relative and Self-Distillation Policy Optimization via Sample Routing"
    beta: Number = 1.0
    teacher: str = "teacher"  # a role
    where: str = "rollout.distilled"  # a boolean column

    provides = ("token.weight.certainty",)

    def __post_init__(self) -> None:
        within(self, "beta", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.where, Signal("entropy", of=self.teacher))

    def __call__(self, batch: Batch) -> Columns:
        chosen = batch.spread(batch[self.where], self.where.partition(".")[0], "token") & batch.trained("token")
        sure = (-self.beta * stop_gradient(batch[Signal("entropy", of=self.teacher)])).exp()
        mean = batch.partition("token", "batch").mean(sure, chosen)
        weight = sure / mean.where(mean > 0, 1)
        return {"token.weight.certainty": weight.where(chosen, 1)}
