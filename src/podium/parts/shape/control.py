"""Entropy control: a gate on negative examples, and a band for each rollout."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Columns, Need, Shape, stop_gradient
from podium.core.signal import Signal
from podium.parts.shape.scores import trained_tokens

__all__ = ["EntropyBand", "EntropyGate"]


class EntropyGate(Shape):
    """Entropy gate with hysteresis: while the entropy is too high, only rollouts with A > 0 and reward > 0 are trained.

    H is the mean over rollouts of their mean token entropy. Above `high` the negatives are masked, below `low` they are
    trained again, and in between nothing changes. With `memory=False` they are masked whenever low < H < high.
    """

    reference = "QwenLong-L1.5 (AEPO), https://github.com/Tongyi-Zhiwen/Qwen-Doc"
    low: float = 0.18  # nats
    high: float = 0.28  # nats
    memory: bool = True  # whether the state of the last iteration counts (hysteresis)
    of: str = "sampler"  # whose entropy: sampler or old

    provides = ("rollout.keep.gate", "batch.gate.negatives")

    def __post_init__(self) -> None:
        one_of(self, "of", ("sampler", "old"))
        if not self.low <= self.high:
            raise PodiumError(f"EntropyGate.low = {self.low} is above high = {self.high}.")

    @property
    def needs(self) -> tuple[Need, ...]:
        before = ("batch.gate.before",) if self.memory else ()
        return (Signal("entropy", of=self.of), "rollout.advantage", "rollout.reward", "rollout.length", *before)

    def negatives(self, entropy: Tensor, before: Tensor | None = None) -> Tensor:
        """[batch] whether negatives are trained at this entropy; `before`: whether they were."""
        if before is None:
            return (entropy <= self.low) | (entropy >= self.high)
        return (entropy < self.low) | (before & (entropy <= self.high))

    def kept(self, batch: Batch, negatives: Tensor) -> Tensor:
        """[rollout] which rollouts are trained."""
        success = (batch["rollout.advantage"] > 0) & (batch["rollout.reward"] > 0)
        return success | batch.spread(negatives, "batch", "rollout")

    def __call__(self, batch: Batch) -> Columns:
        of_rollouts = batch.reduce(batch[Signal("entropy", of=self.of)], "token", "rollout", "mean")
        entropy = batch.by("rollout", where=batch["rollout.length"] > 0).agg.mean(of_rollouts)
        before = batch["batch.gate.before"] > 0 if self.memory else None
        negatives = self.negatives(entropy, before)
        return {"rollout.keep.gate": self.kept(batch, negatives), "batch.gate.negatives": negatives.to(batch.dtype)}


class EntropyBand(Shape):
    """Entropy band of each rollout: two quantiles of the entropies at its selected tokens, as constants."""

    reference = "SPINE, https://github.com/JianghaoWu/SPINE"
    low: float = 0.1  # quantile, in [0, 1]
    high: float = 0.5  # quantile, in [0, 1]
    selected: str = "token.selected"  # a boolean column of tokens

    provides = ("rollout.band.low", "rollout.band.high")

    def __post_init__(self) -> None:
        within(self, "low", 0, 1)
        within(self, "high", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Signal("entropy", of="now"), self.selected)

    def __call__(self, batch: Batch) -> Columns:
        h = stop_gradient(batch[Signal("entropy", of="now")])
        cells = trained_tokens(batch, "rollout", batch[self.selected]).agg
        low, high = (cells.quantile(h, q).nan_to_num(0) for q in (self.low, self.high))
        return {"rollout.band.low": low, "rollout.band.high": high}
