"""Turn advantages modulated by entropy."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.partition import Partition
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["EntropyModulation"]

ENTROPY = Signal("entropy", of="sampler")


class EntropyModulation(Shape):
    """Entropy-modulated turn advantages: A_t ← A · g(H_t) + zeta · f(H_{t+1}), minus its mean over the batch's turns.

    H_t is the mean entropy of the turn's tokens, scaled to [0, 1] over the batch. g = e^{−kH} / mean(e^{−kH}) amplifies
    confident turns, and f = e^{−k'H} rewards a turn that is followed by a confident one. Empty turns are skipped.
    """

    reference = "EMPG: Entropy-Modulated Policy Gradients, https://empgseed-seed.github.io"
    k: Number = 1.0  # how strongly the entropy of a turn counts; 0 with zeta = 0: centred A
    k_future: Number = 1.0  # k', how strongly that of the next turn counts
    zeta: Number = 0.1  # the size of the bonus for the next turn's confidence
    epsilon: float = 1e-8  # added to the divisors

    needs = ("rollout.advantage", ENTROPY)
    provides = ("turn.advantage", "turn.factor")

    def __post_init__(self) -> None:
        within(self, "k", 0)
        within(self, "k_future", 0)
        within(self, "epsilon", 0, open_low=True)

    def turns(self, batch: Batch) -> Partition:
        """The turns in which something was written."""
        return batch.by("turn", where=batch.length("turn") > 0)

    def level(self, batch: Batch) -> Tensor:
        """[turn] the entropy scaled to [0, 1] over the turns that count; others are clamped to it."""
        h, turns = batch.reduce(batch[ENTROPY], "token", "turn", "mean"), self.turns(batch)
        low, high = turns.min(h), turns.max(h)
        return ((h - low) / (high - low + self.epsilon)).clamp(0, 1).where(high >= low, 0)

    def factor(self, batch: Batch) -> Tensor:
        """[turn] g."""
        confidence = (-self.k * self.level(batch)).exp()
        return confidence / (self.turns(batch).mean(confidence) + self.epsilon)

    def modulated(self, batch: Batch) -> Tensor:
        """[turn] A · g + zeta · f of the next turn."""
        scaled = batch.spread(batch["rollout.advantage"], "rollout", "turn") * self.factor(batch)
        future, written = (-self.k_future * self.level(batch)).exp(), batch.length("turn") > 0
        return scaled + self.zeta * batch.following(future, "turn", where=written)

    def __call__(self, batch: Batch) -> Columns:
        return {"turn.advantage": self.turns(batch).centre(self.modulated(batch)), "turn.factor": self.factor(batch)}
