"""Terms that keep the policy near something or spread out: KL, entropy; and likelihood, value regression."""

from __future__ import annotations

from dataclasses import field

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.objective.surrogate import NOW
from podium.objective.term import Term

__all__ = ["KL", "Entropy", "Likelihood", "ValueLoss"]


class KL(Term):
    """Distance to an anchor from the sampled tokens, with d = log π_anchor − log π.

    k1 = −d; k2 = d²/2; k3 = e^d − d − 1 (never negative); abs = |d|. http://joschu.net/blog/kl-approx.html
    """

    estimator: str = "k3"
    anchor: str = "ref"  # a role, or old
    clamp: float = 20.0  # d is held within ± this in k3, whose exponential would overflow
    limit: float | None = None  # and the estimate within ± this

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "estimator", ("k1", "k2", "k3", "abs"))
        within(self, "clamp", 0, open_low=True)
        within(self, "limit", 0, open_low=True, optional=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (NOW, Signal("logp", of=self.anchor))

    def loss(self, batch: Batch) -> Tensor:
        d = batch[Signal("logp", of=self.anchor)] - batch[NOW]
        if self.estimator == "k1":
            kl = -d
        elif self.estimator == "k2":
            kl = d.square() / 2
        elif self.estimator == "k3":
            d = d.clamp(-self.clamp, self.clamp)
            kl = d.exp() - d - 1
        else:
            kl = d.abs()
        return kl if self.limit is None else kl.clamp(-self.limit, self.limit)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {f"kl.{self.anchor}": self.loss(batch)}


class Entropy(Term):
    """−H: a bonus on the entropy of the policy at each trained token."""

    coefficient: Number = field(default=0.001, kw_only=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Signal("entropy", of="now", grad=True),)

    def loss(self, batch: Batch) -> Tensor:
        return -batch[self.needs[0]]


class Likelihood(Term):
    """−log π: imitation of the trained tokens."""

    @property
    def needs(self) -> tuple[Need, ...]:
        return (NOW,)

    def loss(self, batch: Batch) -> Tensor:
        return -batch[NOW]


class ValueLoss(Term):
    """½ max((V − R)², (clip(V, V_old ± clip) − R)²): regression of the critic on `token.return`."""

    clip: Number | None = 0.5
    trains: str = field(default="critic", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "clip", 0, open_low=True, optional=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        old = () if self.clip is None else (Signal("value", of="old"),)
        return ("token.return", Signal("value", of="now", grad=True), *old)

    def loss(self, batch: Batch) -> Tensor:
        v, target = batch[Signal("value", of="now")], batch["token.return"]
        square = (v - target).square()
        if self.clip is not None:
            old = batch[Signal("value", of="old")]
            square = torch.maximum(square, (v.clamp(old - self.clip, old + self.clip) - target).square())
        return square / 2
