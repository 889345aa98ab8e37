"""Policy shaping: learning from off-policy tokens without an importance ratio."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.term import Term
from podium.parts.objective.importance import NOW

__all__ = ["Shaped"]

CLAMP = 20.0  # log-probabilities are at most 0: the clamp keeps the exponential of any other number finite


class Shaped(Term):
    """Policy shaping for off-policy tokens: −A · p / (p + γ), p = π(token), without a clip or a behaviour policy.

    The gradient of log p has the weight γ p / (p + γ)², largest at p = γ, so unlikely tokens learn more than likely
    ones. As γ → 0 the gradient vanishes; for large γ the loss is −A · p / γ.
    """

    reference = "LUFFY: Learning to Reason under Off-Policy Guidance, https://arxiv.org/abs/2504.14945"
    gamma: Number = 0.1  # a probability, > 0

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "gamma", 0, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", NOW)

    def loss(self, batch: Batch) -> Tensor:
        logp: Tensor = batch[NOW]
        p = logp.clamp(max=CLAMP).exp()
        loss: Tensor = -batch["token.advantage"] * p / (p + self.gamma)
        return loss

    def silent(self, batch: Batch) -> Tensor:
        advantage: Tensor = batch["token.advantage"]
        return advantage == 0

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"foreign_probability": batch[NOW].clamp(max=0).exp()}
