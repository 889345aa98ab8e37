"""One value for a whole answer: what the critic says before its last token."""

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
    """The critic's value; of several heads their smooth minimum, so that doubt counts as less."""
    return Signal("value", of=of, grad=grad) if softmin is None else Signal("value", of=of, grad=grad, softmin=softmin)


class AnswerValueLoss(Term):
    """½ (H(V − r) + H(clip(V, V_old ± clip) − r)) with Huber's H: regression of the value of whole answers."""

    reference = REFERENCE
    level = "rollout"
    of: str = "rollout.reward.normalized"  # r
    softmin: float | None = 0.3
    clip: Number = 0.2
    delta: float = 0.5  # where H turns from a square into a line
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
        near = v.clamp(old - self.clip, old + self.clip)
        plain, held = (huber_loss(x, target, reduction="none", delta=self.delta) for x in (v, near))
        return (plain + held) / 2

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"value.error": (self.value(batch) - batch[self.of]).abs()}
