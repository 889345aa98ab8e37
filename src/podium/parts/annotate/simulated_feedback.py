"""Simulated users: they react to some answers, and some of their reactions are wrong."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Part
from podium.parts.objective.feedback import check_noise

__all__ = ["SimulatedFeedback"]


class SimulatedFeedback(Annotate):
    """Writes `rollout.observed`, whether a user reacts to a rollout, and `rollout.feedback`, 1 or 0 as they like it.

    A rollout is liked if its reward exceeds `liked_above`. A user reacts with probability alpha^(best − reward), and
    inverts a 1 with probability noise[0], a 0 with noise[1]. alpha = 1 and noise = (0, 0) is the truth about
    everything.
    """

    reference = "CausalRM, https://arxiv.org/abs/2603.18736"
    noise: tuple[float, float] = (0.2, 0.1)  # rho_01 = P(0 | liked), rho_10 = P(1 | not liked)
    alpha: float = 0.5  # in (0, 1]
    best: float = 1.0  # the reward at which every user reacts
    liked_above: float = 0.5

    needs = ("rollout.reward",)
    provides = ("rollout.observed", "rollout.feedback")

    def __post_init__(self) -> None:
        check_noise(*self.noise)
        within(self, "alpha", 0, 1, open_low=True)

    @property
    def neutral(self) -> Part:
        return self.replace(noise=(0.0, 0.0), alpha=1.0)

    def __call__(self, batch: Batch) -> Columns:
        reward = batch["rollout.reward"]
        observed = batch.random("rollout", "reacts") < self.alpha ** (self.best - reward).clamp(min=0)
        liked = reward > self.liked_above
        wrong = batch.random("rollout", "errs") < reward.new_tensor(self.noise)[(~liked).long()]
        return {
            "rollout.observed": observed,
            "rollout.feedback": ((liked ^ wrong) & observed).to(reward.dtype),
        }
