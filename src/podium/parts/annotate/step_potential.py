"""The step potential: how close each reasoning step has brought the model to the right answer."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.core.signal import Signal

__all__ = ["StepPotential"]

# The mean probability of the right answer's tokens, when the model is made to answer after a segment.
ACCURACY = Signal("logp", of="old", level="segment", passage="answer", reduce="mean_exp")


class StepPotential(Annotate):
    """Writes `segment.potential`, Φ = 1.5·Acc·Conf + 0.5·Acc − Conf after each step.

    Acc is the mean probability of the right answer's tokens if the model must answer at once, Conf the confidence of
    the answers it would give; both lie in [0, 1]. Φ ≈ 0: still exploring; 1: confident and right; −1: confident and
    wrong.
    """

    reference = "SPAE: Step Potential Advantage Estimation, https://github.com/cii030/SPAE-RL"

    needs = (ACCURACY, "segment.confidence")
    provides = ("segment.potential",)

    def __call__(self, batch: Batch) -> Columns:
        accuracy, confidence = batch[ACCURACY], batch["segment.confidence"]
        return {"segment.potential": 1.5 * accuracy * confidence + 0.5 * accuracy - confidence}
