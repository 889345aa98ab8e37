"""Value regression for whole answers: the critic is read at the last token."""

from __future__ import annotations

from dataclasses import field

from torch import Tensor
from torch.nn.functional import huber_loss

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term

__all__ = ["AnswerValueLoss"]


REFERENCE = "SAFE, https://github.com/ryyzn9/SAFE"


def value_of(of: str, softmin: float | None, grad: bool = False) -> Signal:
    """The critic's value; of several heads their soft minimum, so that disagreement lowers it."""
    return Signal("value", of=of, grad=grad) if softmin is None else Signal("value", of=of, grad=grad, softmin=softmin)


class AnswerValueLoss(Term):
    """Clipped value regression for whole answers: ½ (H(V − r) + H(clip(V, V_old ± clip) − r)), H the Huber loss.

    V is the critic's value at the last trained token of a rollout. V_old is `rollout.value`.
    """

    reference = REFERENCE
    level = "rollout"
    of: str = "rollout.reward.normalized"  # r, a column of rollouts
    softmin: float | None = 0.3  # temperature of the soft minimum over the critic's heads; None: a single head
    clip: Number = 0.2  # how far V may move from V_old; above 0
    delta: float = 0.5  # |error| at which H turns from quadratic to linear
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)
    trains: str = field(default="critic", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "softmin", 0, open_low=True, optional=True)
        within(self, "clip", 0, open_low=True)
        within(self, "delta", 0, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of, "rollout.value", value_of("now", self.softmin, grad=True))

    @property
    def couples(self) -> str:
        return "rollout"

    def value(self, batch: Batch) -> Tensor:
        """[rollout] V."""
        last = batch.last("token", "rollout", where=batch.trained("token"))
        return batch.reduce(batch[value_of("now", self.softmin)], "token", "rollout", "sum", where=last)

    def loss(self, batch: Batch) -> Tensor:
        v, old, target = self.value(batch), batch["rollout.value"], batch[self.of]
        near_old = v.clamp(old - self.clip, old + self.clip)
        plain, clipped = (huber_loss(x, target, reduction="none", delta=self.delta) for x in (v, near_old))
        return (plain + clipped) / 2

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"value.error": (self.value(batch) - batch[self.of]).abs()}
