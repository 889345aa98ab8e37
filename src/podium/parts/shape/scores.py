"""Token scores that selectors rank by. All are constants: no gradient flows through a score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Need, stop_gradient
from podium.core.partition import Partition
from podium.core.signal import Signal

__all__ = ["SCORES", "Tokens", "trained_tokens"]


@dataclass(frozen=True)
class Tokens:
    """The inputs of scores: signals of one policy, and the advantage."""

    batch: Batch
    of: str  # whose signals: now, old or sampler
    top_p: float = 1.0  # of the entropy
    trade: float = 0.0  # the weight of the entropy in `surplus`

    @property
    def logp(self) -> Tensor:
        return stop_gradient(self.batch[Signal("logp", of=self.of)])

    @property
    def entropy(self) -> Tensor:
        return stop_gradient(self.batch[entropy_signal(self.of, self.top_p)])

    @property
    def advantage(self) -> Tensor:
        advantage: Tensor = self.batch["token.advantage"]
        return advantage


def entropy_signal(of: str, top_p: float = 1.0) -> Signal:
    """The entropy, of the whole distribution or of its nucleus."""
    return Signal("entropy", of=of) if top_p == 1.0 else Signal("entropy", of=of, top_p=top_p)


def trained_tokens(batch: Batch, scope: str = "batch", where: Tensor | None = None) -> Partition:
    """The trained tokens, demonstrations included, in cells by the element of `scope` that they belong to."""
    enters = batch.trained("token") if where is None else batch.trained("token") & where
    index, size = batch.link("token", scope), batch.size(scope)
    return Partition(index, size, where=enters, batch=batch, level="token", ties=lambda: batch.ties("token"))


def covariance(t: Tokens) -> Tensor:
    """(A − mean A) · (log π − mean log π), means over the trained tokens."""
    trained = t.batch.by("token", where=t.batch.trained("token"))
    return trained.centre(t.advantage) * trained.centre(t.logp)


def discriminator(t: Tokens) -> Tensor:
    """S = p (log p + H): raising this token's logit by ε changes the entropy by −ε S."""
    return t.logp.exp() * (t.logp + t.entropy)


@dataclass(frozen=True)
class TokenScore:
    """A score and what it reads."""

    value: Callable[[Tokens], Tensor]
    signals: tuple[str, ...]
    advantage: bool = False

    def needs(self, of: str, top_p: float) -> tuple[Need, ...]:
        signals = {"logp": Signal("logp", of=of), "entropy": entropy_signal(of, top_p)}
        return (*(signals[name] for name in self.signals), *(("token.advantage",) if self.advantage else ()))


SCORES = {
    "entropy": TokenScore(lambda t: t.entropy, ("entropy",)),
    "surprise": TokenScore(lambda t: -t.logp, ("logp",)),  # low probability first
    # Surprise beyond what the entropy leads to expect.
    "surplus": TokenScore(lambda t: -t.logp - t.trade * t.entropy, ("logp", "entropy")),
    "stake": TokenScore(lambda t: t.advantage.abs() * t.entropy, ("entropy",), advantage=True),
    "discriminator": TokenScore(discriminator, ("logp", "entropy")),
    "covariance": TokenScore(covariance, ("logp",), advantage=True),
}
