"""The bias that PPO's clipping adds to the surrogate objective."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Metric, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["ClipBias"]

NOW, OLD = Signal("logp", of="now"), Signal("logp", of="old")


class ClipBias(Metric):
    """Reports the bias of clipping, mean(min(r A, clip(r) A)) − mean(r A) ≤ 0 over the trained tokens.

    r is the importance ratio. `batch.clip.up` and `batch.clip.down` are the shares of tokens at which the clip binds:
    from above where A > 0 and r > 1 + high, from below where A < 0 and r < 1 − low.
    """

    reference = "Rethinking RLVR through Clipping, Entropy, and Spurious Reward"
    low: Number = 0.2  # the clip range of the objective is [1 − low, 1 + high]
    high: Number = 0.2

    needs = ("token.advantage", NOW, OLD)
    provides = (
        "batch.clip.up",
        "batch.clip.down",
        "batch.clip.surrogate",
        "batch.clip.clipped_surrogate",
        "batch.clip.bias",
    )

    def __post_init__(self) -> None:
        within(self, "low", 0)
        within(self, "high", 0)

    def ratio(self, batch: Batch) -> Tensor:
        """[token] The importance ratio r, its logarithm clamped to ±20 against overflow."""
        return (stop_gradient(batch[NOW]) - batch[OLD]).clamp(-20, 20).exp()

    def clipped(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[token] Where the clip binds from above, and from below."""
        a, ratio = batch["token.advantage"], self.ratio(batch)
        return (a > 0) & (ratio > 1 + self.high), (a < 0) & (ratio < 1 - self.low)

    def __call__(self, batch: Batch) -> Columns:
        a, ratio = batch["token.advantage"], self.ratio(batch)
        surrogate = ratio * a
        clipped = surrogate.minimum(ratio.clamp(1 - self.low, 1 + self.high) * a)
        mean = batch.by("token", where=batch.trained("token")).agg.mean
        values = (*self.clipped(batch), surrogate, clipped, clipped - surrogate)
        return {name: mean(x.to(batch.dtype)) for name, x in zip(self.provides, values, strict=True)}
