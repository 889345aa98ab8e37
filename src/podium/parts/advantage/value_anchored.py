"""Values of steps as advantages: compared within the group at the same step, and anchored to their absolute size."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns
from podium.parts.advantage.normalize import Normalize

__all__ = ["ValueAnchored"]

NO_VALUE = 1e-8  # a mean value below this weighs all steps alike


class ValueAnchored(Advantage):
    """With R_t the score after step t, Q_t = Σ_{j ≥ t} γ^{j−t} R_j and ω_t = Q_t / (mean of Q over the rollout),

        A_t = ω_t · ((Q_t − mean Q_t) / (std Q_t + ε) + k · Q_t)

    with the mean and the biased std over the rollouts of the group at the same step, and k on the first
    `absolute_steps` steps alone. Where all rollouts of a group are alike, A = ω · k · Q instead of 0. Scores must not
    be negative. `token.q` is Q, `token.omega` is ω. With k = 0, γ = 1 and a score at the last step alone it is GRPO.
    """

    reference = "VGPO: Anchoring Values in Temporal and Group Dimensions for Flow Matching Model Alignment"
    gamma: float = 0.9  # in [0, 1]
    k: float = 0.1  # ≥ 0
    absolute_steps: int = 5  # ≥ 0
    epsilon: float = 1e-4  # > 0

    needs = ("token.score",)
    provides = ("token.advantage", "token.q", "token.omega")
    normalizes = True

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)
        within(self, "k", 0)
        within(self, "absolute_steps", 0)
        within(self, "epsilon", 0, open_low=True)

    @property
    def neutral(self) -> Normalize:
        return Normalize(epsilon=self.epsilon)

    def __call__(self, batch: Batch) -> Columns:
        score, steps = batch["token.score"], batch.action
        place = batch.scan(steps.long(), "token", "rollout", reverse=False) - 1
        decay = torch.full_like(score, self.gamma).where(steps, 1.0)
        q = batch.scan(score.where(steps, 0), "token", "rollout", decay=decay)
        mean = batch.partition("token", "rollout").mean(q, steps)
        flat = mean.abs() < NO_VALUE
        omega = (q / mean.where(~flat, 1)).masked_fill(flat, 1)
        alike = batch.by("token", "group", where=steps).refine(place)
        z = alike.centre(q) / (alike.std(q, unbiased=False) + self.epsilon)
        absolute = self.k * q.where(place < self.absolute_steps, 0)
        return {"token.advantage": omega * (z + absolute), "token.q": q, "token.omega": omega}
