"""How near each step has brought the model to the right answer."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.core.signal import Signal

__all__ = ["StepPotential"]

RIGHT = Signal("logp", of="old", level="segment", passage="answer", reduce="mean_exp")


class StepPotential(Annotate):
    """Φ = 1.5·Acc·Conf + 0.5·Acc − Conf after each step: near 0 exploring, 1 right and sure, −1 wrong and sure.

    Acc is the mean probability of the right answer's tokens when the model must answer now; Conf how sure its answers
    are. Both lie in [0, 1].
    """

    reference = "SPAE: Step Potential Advantage Estimation, https://github.com/cii030/SPAE-RL"

    needs = (RIGHT, "segment.confidence")
    provides = ("segment.potential",)

    def __call__(self, batch: Batch) -> Columns:
        right, sure = batch[RIGHT], batch["segment.confidence"]
        return {"segment.potential": 1.5 * right * sure + 0.5 * right - sure}
