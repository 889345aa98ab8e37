"""Token weights by a teacher's certainty."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Shape, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["TeacherCertainty"]


class TeacherCertainty(Shape):
    """Token weights by the teacher's certainty: w = e^{−beta·H} / mean(e^{−beta·H}), H the teacher's entropy.

    The mean is over the trained tokens of `where`, so their mean weight is 1 whatever beta is; elsewhere w = 1.
    """

    reference = "SRPO: Group-Relative and Self-Distillation Policy Optimization via Sample Routing"
    beta: Number = 1.0  # how strongly the entropy counts; 0: all weights are 1
    teacher: str = "teacher"  # a role
    where: str = "rollout.distilled"  # a boolean column: whose tokens are weighted

    provides = ("token.weight.certainty",)

    def __post_init__(self) -> None:
        within(self, "beta", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.where, Signal("entropy", of=self.teacher))

    def __call__(self, batch: Batch) -> Columns:
        chosen = batch.spread_column(self.where) & batch.trained("token")
        sure = (-self.beta * stop_gradient(batch[Signal("entropy", of=self.teacher)])).exp()
        mean = batch.partition("token", "batch").mean(sure, chosen)
        weight = sure / mean.where(mean > 0, 1)
        return {"token.weight.certainty": weight.where(chosen, 1)}
