"""How often feedback is wrong, by anchors: answers that everybody likes, and answers that nobody does."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Need
from podium.parts.objective.feedback import noise_rates
from podium.parts.objective.feedback_model import head_of
from podium.parts.objective.rollout_value import last_value

__all__ = ["NoiseAnchors"]


class NoiseAnchors(Annotate):
    """Writes `batch.rho_01` = 1 − max g and `batch.rho_10` = min g, with g what a model expects of feedback.

    The rollout that most surely gets a 1 is taken to be liked, and the one that most surely gets a 0 to be disliked.
    Where their sum exceeds `most`, as before g has learned anything, both are scaled down to it.
    """

    reference = "CausalRM, https://arxiv.org/abs/2603.18736"
    role: str = "rm"  # whose head `proxy` gives g
    most: float = 0.8  # of rho_01 + rho_10, below 1

    provides = ("batch.rho_01", "batch.rho_10")

    def __post_init__(self) -> None:
        within(self, "most", 0, 0.99)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (head_of("proxy", self.role, grad=False),)

    @property
    def neutral(self) -> NoiseAnchors:
        return self.replace(most=0.0)  # feedback is taken at its word

    def __call__(self, batch: Batch) -> Columns:
        rates = noise_rates(last_value(batch, head_of("proxy", self.role, grad=False)).sigmoid())
        total = sum(rates)
        scale = self.most / total if total > self.most else 1.0
        held = (torch.tensor([scale * rate], dtype=batch.dtype, device=batch.device) for rate in rates)
        return dict(zip(self.provides, held, strict=True))
