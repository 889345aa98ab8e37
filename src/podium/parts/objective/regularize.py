"""KL penalty, likelihood (supervised) loss and value regression."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.facts import RunFacts
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Term
from podium.parts.objective.importance import NOW

__all__ = ["KL", "Likelihood", "ValueLoss"]

OLD = Signal("logp", of="old")


class KL(Term):
    """KL penalty KL(π ‖ anchor), estimated at the sampled tokens with d = log π_anchor − log π.

    k1 = −d; k2 = d²/2; k3 = e^d − d − 1 (never negative); abs = |d|. http://joschu.net/blog/kl-approx.html
    forward = d e^d − e^d + 1 estimates KL(anchor ‖ π), which covers the anchor's mass instead of seeking its mode.
    At tokens that π_old sampled, `corrected` estimates stay unbiased while π moves away from it; so does the gradient
    of k3, which otherwise has no bound where π is far below the anchor (DeepSeek-V3.2).
    """

    holds_to_reference = True
    estimator: str = "k3"  # k1, k2, k3, abs or forward
    anchor: str = "ref"  # a role, or old
    clamp: float = 20.0  # d in k3 and forward, and log π / π_old, are clamped to ± this: exponentials would overflow
    limit: float | None = None  # the estimate is clamped to ± this; None: not at all
    power: float | str = 1.0  # sharpens the anchor: softmax(power · logits); a number, or a column of rollouts
    min_p: float = 0.0  # the anchor without tokens less likely than this share of its likeliest one
    corrected: bool = False  # whether it is multiplied by π / π_old, through which the gradient flows too

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "estimator", ("k1", "k2", "k3", "abs", "forward"))
        within(self, "clamp", 0, open_low=True)
        within(self, "limit", 0, open_low=True, optional=True)
        within(self, "power", 0, column=True)
        within(self, "min_p", 0, 1)

    def inert(self, facts: RunFacts) -> Iterable[str]:
        plain = self.power == 1.0 and self.min_p == 0.0 and self.estimator != "k1"
        if self.anchor == "old" and facts.updates == 1 and plain:
            yield (
                "is 0, and so is its gradient: a batch is trained in one optimiser step, at which the policy is still "
                "the old one. Set updates.mini_batches=4, or updates.epochs=2."
            )

    @property
    def _anchor(self) -> Signal:
        power: dict[str, Any] = {} if self.power == 1.0 else {"power": self.power}
        min_p: dict[str, Any] = {} if self.min_p == 0.0 else {"min_p": self.min_p}
        return Signal("logp", of=self.anchor, **power, **min_p)

    @property
    def needs(self) -> tuple[Need, ...]:
        columns = (self.power,) if isinstance(self.power, str) else ()
        return (NOW, self._anchor, *((OLD,) if self.corrected else ()), *columns)

    def distance(self, batch: Batch) -> Tensor:
        """[token] the estimate."""
        d = batch[self._anchor] - batch[NOW]
        if self.estimator in ("k3", "forward"):
            d = d.clamp(-self.clamp, self.clamp)
        if self.estimator == "k1":
            kl = -d
        elif self.estimator == "k2":
            kl = d.square() / 2
        elif self.estimator == "k3":
            kl = d.exp() - d - 1
        elif self.estimator == "forward":
            kl = d * d.exp() - d.exp() + 1
        else:
            kl = d.abs()
        return kl if self.limit is None else kl.clamp(-self.limit, self.limit)

    def loss(self, batch: Batch) -> Tensor:
        distance = self.distance(batch)
        if self.corrected:
            distance = distance * (batch[NOW] - batch[OLD]).clamp(-self.clamp, self.clamp).exp()
        return distance

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {f"kl.{self.anchor}": self.distance(batch)}


class Likelihood(Term):
    """Negative log-likelihood −log π of the trained tokens: supervised fine-tuning (SFT)."""

    needs = (NOW,)

    def loss(self, batch: Batch) -> Tensor:
        logp: Tensor = batch[NOW]
        return -logp


class ValueLoss(Term):
    """PPO's clipped value loss: ½ max((V − R)², (clip(V, V_old ± clip) − R)²), R the return in `token.return`."""

    overflows = "it squares the distance of values from returns"
    clip: Number | None = 0.5  # how far V may move from V_old; None: plain regression
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
