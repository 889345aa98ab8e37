"""Small updates with known numbers, for claims about tokens and entropies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium.core import Signal
from podium.core.batch import Batch
from podium.core.term import Term
from podium.method import Method
from tests.conformance.helpers import Outcome, differentiate

__all__ = ["bandit_batch", "loss_of", "random_update"]


def random_update(rollouts: int = 6, width: int = 8, seed: int = 0, groups: int = 2, **columns: Tensor) -> Batch:
    """An off-policy update in float64: ragged rollouts, log-probabilities, entropies, advantages of either sign."""
    g = torch.Generator().manual_seed(seed)
    length = torch.randint(2, width + 1, (rollouts,), generator=g)
    mask = torch.arange(width) < length[:, None]

    def uniform(low: float, high: float, *size: int) -> Tensor:
        return low + (high - low) * torch.rand(*size, generator=g, dtype=torch.float64)

    old = uniform(-3, -0.05, rollouts, width)
    advantage = uniform(-2, 2, rollouts)
    advantage[0], advantage[1] = 1.3, -0.7
    entropy = uniform(0.05, 2.5, rollouts, width)
    found: dict[str, Any] = {
        "token.now.logp": (old + uniform(-0.5, 0.5, rollouts, width)).clamp(max=-1e-3),
        "token.old.logp": old,
        "token.ref.logp": (old + uniform(-0.3, 0.3, rollouts, width)).clamp(max=-1e-3),
        "token.now.entropy": entropy,
        "token.old.entropy": entropy,
        "token.sampler.entropy": entropy,
        "rollout.advantage": advantage,
        "rollout.reward": torch.tensor([float((i // groups) % 2) for i in range(rollouts)], dtype=torch.float64),
    }
    return Batch.from_padded(mask, [i % groups for i in range(rollouts)], found | columns)


def loss_of(method: Method | list[Term], batch: Batch) -> Outcome:
    """The loss and its gradient, after the shape parts of the method."""
    if not isinstance(method, Method):
        return differentiate(method, batch)
    for part in method.shape:
        if not part.live:
            batch = batch.with_columns(part(batch))
    return differentiate(method.objective, batch, [part for part in method.shape if part.live])


def bandit_batch(logits: Tensor, actions: list[int], advantages: list[float]) -> tuple[Batch, Tensor]:
    """One-token rollouts of a softmax policy in one group, and the leaf that its log-probabilities depend on."""
    leaf = logits.clone().requires_grad_()
    logp = leaf.log_softmax(-1)[torch.tensor(actions)][:, None]
    entropy = -(leaf.softmax(-1) * leaf.log_softmax(-1)).sum().expand(len(actions), 1)
    columns = {
        Signal("logp", of="now").column: logp,
        Signal("logp", of="old").column: logp.detach(),
        Signal("entropy", of="now").column: entropy,
        Signal("entropy", of="old").column: entropy.detach(),
        "rollout.advantage": torch.tensor(advantages, dtype=logits.dtype),
    }
    return Batch.from_padded(torch.ones(len(actions), 1), [0] * len(actions), columns), leaf
