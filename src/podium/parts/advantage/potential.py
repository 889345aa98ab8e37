"""Credit for steps by what is known after each: the step potential."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns
from podium.core.schedule import Number

__all__ = ["PotentialCredit"]


PAPER = "SPAE: Step Potential Advantage Estimation, https://github.com/cii030/SPAE-RL"


class PotentialCredit(Advantage):
    """A = (R − mean)·f + xi·g for each step, with f = 1 − alpha·(1 − e^{−C}) and g = e^{s} − mean of e^{s}.

    C counts the earlier steps with Φ > saturation: once solved, credit decays. s is Φ_k − Φ_{k−1} (0 at first steps)
    scaled to [0, 1] over all steps of the batch: steps that raise the potential earn more.
    """

    reference = PAPER
    alpha: Number = 0.5  # how much credit a solved task loses
    xi: Number = 0.5
    saturation: Number = 0.9

    needs = ("rollout.reward", "segment.potential")
    provides = ("segment.advantage",)

    def __post_init__(self) -> None:
        within(self, "alpha", 0, 1)
        within(self, "saturation", -1, 1)

    def __call__(self, batch: Batch) -> Columns:
        potential, steps = batch["segment.potential"], batch.by("segment")
        solved = (potential > self.saturation).to(batch.dtype)
        before = batch.scan(solved, "segment", "rollout", reverse=False) - solved
        f = 1 - self.alpha * (1 - (-before).exp())
        rise = potential - batch.shift(potential, "segment", "rollout")
        rise = rise.where(~batch.first("segment", "rollout"), 0)
        low, width = steps.min(rise), steps.max(rise) - steps.min(rise)
        gain = ((rise - low) / width.where((width > 0) & width.isfinite(), 1)).where(width.isfinite(), 0).exp()
        g = steps.centre(gain)
        outcome = batch.by("rollout", "group").centre(batch["rollout.reward"])
        return {"segment.advantage": batch.spread(outcome, "rollout", "segment") * f + self.xi * g}
