"""The exact KL divergence of Gaussian steps."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Need
from podium.core.signal import Signal
from podium.core.term import Term

__all__ = ["StepKL"]

NOW = Signal("step_mean", of="now", grad=True)


class StepKL(Term):
    """KL(π ‖ anchor) of each Gaussian step, exact: (μ − μ_anchor)² / 2σ², the mean over pixels.

    Both have the same σ, which the noise of the step decides.
    """

    holds_to_reference = True
    anchor: str = "ref"  # a role, or old

    @property
    def _anchor(self) -> Signal:
        return Signal("step_mean", of=self.anchor)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (NOW, self._anchor, "token.sampler.std")

    def loss(self, batch: Batch) -> Tensor:
        square = (batch[NOW] - batch[self._anchor]).square()
        return (square if square.dim() == 1 else square.flatten(1).mean(-1)) / (2 * batch["token.sampler.std"].square())

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {f"kl.{self.anchor}": self.loss(batch)}
