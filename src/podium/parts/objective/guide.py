"""Expert guidance: a demonstration's log-probabilities as the reference for the policy's own tokens."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Need, stop_gradient
from podium.core.schedule import Number
from podium.core.term import Term
from podium.parts.objective.importance import NOW

__all__ = ["Guide"]


class Guide(Term):
    """Calibration against an expert: |A| · LeakyReLU(−y (log π − e)), e the expert's log-probability of the position.

    Right rollouts (y = 1) are pushed above e, wrong ones (y = −1) below it; beyond e the slope is `leak`.
    """

    reference = "CalibRL, https://github.com/zhh6425/CalibRL"
    leak: Number = 0.5  # 0: no push beyond the expert; 1: the same push whatever the expert
    threshold: float = 0.1  # a rollout whose reward is above it is right

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "leak", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", "token.expert.logp", "rollout.reward", NOW)

    def loss(self, batch: Batch) -> Tensor:
        right = batch.spread(batch["rollout.reward"] > self.threshold, "rollout", "token")
        above = batch[NOW] - batch["token.expert.logp"]
        rareness = stop_gradient(batch["token.advantage"]).abs()
        return rareness * leaky_relu(torch.where(right, -above, above), float(self.leak))

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"above_expert": (batch[NOW] > batch["token.expert.logp"]).to(batch.dtype)}
