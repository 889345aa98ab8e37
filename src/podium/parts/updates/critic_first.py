"""An update plan that trains the critic before the policy."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.updates import PolicyScore, Updates

__all__ = ["CriticFirst"]


class CriticFirst(Updates):
    """Critic before actor: `critic_epochs` passes for every learner but the policy, then `epochs` for the policy."""

    reference = "ArCHer, https://github.com/YifeiZhou02/ArCHer"
    critic_epochs: int = 50  # passes over the batch, at least 1

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "critic_epochs", 1)

    @property
    def passes(self) -> int:
        return self.critic_epochs + self.epochs

    @property
    def single(self) -> bool:
        return False

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Iterator[Batch]:
        for epochs, policy in ((self.critic_epochs, False), (self.epochs, True)):
            for update in Updates.__call__(self.replace(epochs=epochs), batch, score):
                yield update.with_columns({"batch.update.policy": torch.tensor([policy], device=batch.device)})
