"""Flow matching on the hidden states of good rollouts."""

from __future__ import annotations

from dataclasses import field

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Need
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term

__all__ = ["FlowMatch"]


class FlowMatch(Term):
    """Flow-matching loss: the mean squared error of the flow's velocity at a random time, per token.

    With `where` naming the right rollouts, the flow is fitted to those alone (rejection sampling).
    """

    reference = "RLFR, https://github.com/Jinghaoleven/RLFR"
    neighbour: str = "before"  # which neighbouring token's state conditions the flow: before or after
    aggregate: Aggregate = field(default=Aggregate("token mean, rollout mean"), kw_only=True)
    trains: str = field(default="flow", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "neighbour", ("before", "after"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Signal("flow_error", of="now", grad=True, neighbour=self.neighbour),)

    def loss(self, batch: Batch) -> Tensor:
        error: Tensor = batch[self.needs[0]]
        return error

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"flow.error": self.loss(batch)}
