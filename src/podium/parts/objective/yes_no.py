"""The exact KL divergence of choices by yes or no."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.bernoulli import bernoulli_kl
from podium.core.part import Need
from podium.core.signal import Signal
from podium.core.term import Term

__all__ = ["BernoulliKL"]

NOW = Signal("log_odds", of="now", grad=True)


class BernoulliKL(Term):
    """KL(π ‖ anchor) of each choice by yes or no, exact: p log(p / q) + (1 − p) log((1 − p) / (1 − q))."""

    holds_to_reference = True
    anchor: str = "ref"  # a role, or old

    @property
    def _anchor(self) -> Signal:
        return Signal("log_odds", of=self.anchor)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (NOW, self._anchor)

    def loss(self, batch: Batch) -> Tensor:
        return bernoulli_kl(batch[NOW], batch[self._anchor])

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {f"kl.{self.anchor}": self.loss(batch)}
