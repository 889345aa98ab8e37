"""A model that is trained, with its optimiser: one clipped step at a time, at the learning rate of its schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from podium.core.errors import PodiumError
from podium.policy import Policy
from podium.training.config import USUAL, Optimizer
from podium.training.quantized_adam import QuantizedAdamW

__all__ = ["Learner"]


@dataclass
class Learner:
    """A model that is trained, and its optimiser."""

    policy: Policy
    settings: Optimizer
    lower: torch.dtype | None = None  # the precision to compute in; None: that of the weights
    moments: str = "float32"  # the precision of the optimiser's running means: float32 or 8bit
    shard: bool = False  # whether each rank keeps a share of them
    updates: int = 0
    since: int = 0  # the update at which its optimiser was new
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        self.settings = self.settings.over(USUAL)
        self.policy.widen(self.lower)
        trained = [p for p in self.policy.parameters() if p.requires_grad]
        s, fused = self.settings, True if self.policy.device.type == "cuda" else None
        assert s.betas is not None
        usual = {"lr": s.lr, "betas": s.betas, "weight_decay": s.weight_decay}
        if self.moments == "8bit":
            self.optimizer = QuantizedAdamW(trained, **usual)
        elif self.shard:
            from torch.distributed.optim import ZeroRedundancyOptimizer

            self.optimizer = ZeroRedundancyOptimizer(trained, torch.optim.AdamW, **usual, fused=fused)
        else:
            self.optimizer = torch.optim.AdamW(trained, **usual, fused=fused)

    def step(
        self,
        planned: int,
        skip_above: float | None = None,
        cause: Callable[[], str] = lambda: "lower the learning rate.",
        scale: float = 1.0,
    ) -> float:
        """Clip the gradient, step unless its norm exceeds `skip_above`, clear it; returns the norm before clipping.

        A norm that is not finite is an error; `cause` says where it comes from and what to do. `scale` multiplies the
        learning rate.
        """
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        for p in parameters:
            if p.grad is None:  # nothing to learn from: a gradient of 0, with which the optimiser's moments decay
                p.grad = torch.zeros_like(p)
        limit = self.settings.clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit))
        if not math.isfinite(norm):
            raise PodiumError(f"The gradient norm is {norm} at update {self.updates}: {cause()}")
        for group in self.optimizer.param_groups:
            group["lr"] = scale * self.rate(planned)
        if skip_above is None or norm <= skip_above:
            try:
                self.optimizer.step()
            except torch.OutOfMemoryError as error:
                raise PodiumError(
                    "The optimiser's moments do not fit in the GPU's memory: keep them in 8 bits (moments='8bit'), "
                    "train adapters (lora=16), or use a smaller model."
                ) from error
        self.optimizer.zero_grad(set_to_none=True)
        self.updates += 1
        self.policy.bump()
        return norm

    def refresh(self) -> None:
        """Begin with a new optimiser: no moments, and the learning rate's schedule over the updates that are left."""
        local: Any = self.optimizer
        (local.optim if self.shard else local).state.clear()
        self.since = self.updates

    def gather_moments(self) -> None:
        """Bring the moments of all ranks to the first one, which writes them."""
        if self.shard:
            sharded: Any = self.optimizer
            sharded.consolidate_state_dict(to=0)

    def rate(self, planned: int) -> float:
        """The learning rate of the next update, of `planned` in all."""
        s, updates = self.settings, self.updates - self.since
        warm = min(1.0, (updates + 1) / s.warmup) if s.warmup else 1.0
        done = min(updates / max(planned - self.since, 1), 1.0)
        left = 0.5 * (1.0 + math.cos(math.pi * done)) if s.schedule == "cosine" else 1.0 - done
        decay = 1.0 if s.schedule == "constant" else s.final + (1.0 - s.final) * left
        rate: float = s.lr * warm * decay
        return rate
