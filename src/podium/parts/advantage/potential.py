"""Step-level credit from the step potential."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns
from podium.core.schedule import Number

__all__ = ["PotentialCredit"]


PAPER = "SPAE: Step Potential Advantage Estimation, https://github.com/cii030/SPAE-RL"


class PotentialCredit(Advantage):
    """Credits steps by the outcome, discounted once the task is solved, and by how much they raise the potential Φ.

        A = (R − mean) · f + xi · g,  f = 1 − alpha · (1 − e^{−C}),  g = e^{s} − mean of e^{s}

    C counts the earlier steps with Φ > saturation, so credit decays after the task is solved. s is the rise
    Φ_k − Φ_{k−1} (0 at first steps), min-max scaled to [0, 1] over the steps of the batch. alpha = xi = 0 is the
    group-centred outcome.
    """

    reference = PAPER
    alpha: Number = 0.5  # the most that credit decays after the task is solved, in [0, 1]
    xi: Number = 0.5  # weight of the rise in potential
    saturation: Number = 0.9  # the potential above which a task counts as solved, in [−1, 1]

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
