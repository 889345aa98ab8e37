"""The trainer: learners with their optimisers, and one exact optimiser step at a time. It knows no method by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Shape
from podium.core.signal import Signal
from podium.objective.gradient import Step, backward
from podium.objective.term import Term
from podium.policy import Policy
from podium.training.config import Optimizer

__all__ = ["Learner", "Trainer"]

OLD = Signal("logp", of="old")


@dataclass
class Learner:
    """A model that is trained, and its optimiser."""

    policy: Policy
    settings: Optimizer
    updates: int = 0
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        trained = [p for p in self.policy.parameters() if p.requires_grad]
        s = self.settings
        self.optimizer = torch.optim.AdamW(trained, lr=s.lr, betas=s.betas, weight_decay=s.weight_decay)

    def step(self, planned: int) -> float:
        """Clip, step, forget the gradient; returns the gradient norm before clipping."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        limit = self.settings.clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit))
        if not math.isfinite(norm):
            raise PodiumError(f"The gradient norm is {norm} at update {self.updates}: lower the learning rate.")
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(planned)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.updates += 1
        self.policy.bump()
        return norm

    def rate(self, planned: int) -> float:
        """The learning rate of the next update, of `planned` in all."""
        s = self.settings
        warm = min(1.0, (self.updates + 1) / s.warmup) if s.warmup else 1.0
        done = min(self.updates / max(planned, 1), 1.0)
        decay = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}[s.schedule]
        return s.lr * warm * decay


@dataclass
class Trainer:
    """Computes signals by role, and takes optimiser steps."""

    learners: Mapping[str, Learner]  # policy, critic, …
    roles: Mapping[str, Policy]  # frozen ones: ref, …
    temperature: float = 1.0  # of sampling: log-probabilities are those of the distribution sampled from
    micro_tokens: int = 16384
    planned_updates: int = 0

    def signals(self, batch: Batch, wanted: Sequence[Signal], *, grad: bool = False) -> dict[Signal, Tensor]:
        """Compute signals of a batch, each by the model that its `of` names."""
        found: dict[Signal, Tensor] = {}
        for model, signals in self._by_model(wanted).items():
            found |= model.signals(batch, signals, temperature=self.temperature, grad=grad)
        return found

    def _by_model(self, wanted: Sequence[Signal]) -> dict[Policy, list[Signal]]:
        plan: dict[Policy, list[Signal]] = {}
        for signal in wanted:
            plan.setdefault(self._model(signal), []).append(signal)
        return plan

    def _model(self, signal: Signal) -> Policy:
        if signal.of in self.roles:
            return self.roles[signal.of]
        if signal.of not in ("old", "now", "sampler"):
            raise PodiumError(f"{signal!r} asks for the role {signal.of!r}, which the method does not have.")
        return self.learners["critic" if signal.name == "value" else "policy"].policy

    def provide(self, batch: Batch, wanted: Sequence[Signal]) -> Batch:
        """The batch with these signals computed without a graph, where it does not have them."""
        missing = [s for s in wanted if s not in batch]
        if not missing:
            return batch
        parts: dict[Signal, list[Tensor]] = {s: [] for s in missing}
        rows = self.split(batch)
        with torch.no_grad():
            for chosen in rows:
                for signal, value in self.signals(batch.take("rollout", chosen), missing).items():
                    parts[signal].append(value)
        # Consecutive rollouts in order: the pieces join to the whole.
        return batch.with_columns({s: torch.cat(values) for s, values in parts.items()})

    def split(self, batch: Batch) -> list[Tensor]:
        """Consecutive rollouts in micro-batches of at most `micro_tokens` tokens, contexts included."""
        contexts = torch.tensor([len(c) for c in batch["turn.train_context"]], device=batch.device)
        size = batch.partition("token", "rollout").lengths() + batch.partition("turn", "rollout").total(contexts)
        number = (size.cumsum(0) - 1) // self.micro_tokens
        order = torch.arange(len(batch), device=batch.device)
        return [order[number == k] for k in torch.unique(number).tolist()]

    def step(self, update: Batch, terms: Sequence[Term], live: Sequence[Shape] = ()) -> tuple[Step, dict[str, float]]:
        """One optimiser step of every learner that the terms train; what came of it, and gradient norms."""
        result = backward(terms, update, self._forward, self.split(update), live)
        trained = sorted({t.trains for t in terms})
        norms = {f"grad_norm.{name}": self.learners[name].step(self.planned_updates) for name in trained}
        return result, norms

    def _forward(self, batch: Batch, signals: Sequence[Signal]) -> dict[Signal, Tensor]:
        now = [s for s in signals if s.of == "now"]
        found = self.signals(batch, now, grad=torch.is_grad_enabled())
        for signal in now:
            old = Signal(signal.name, of="old", level=signal.level, **dict(signal.settings))
            # At the only update of a batch the old policy is the current one: its numbers, held fixed.
            if old not in batch:
                found[old] = found[signal].detach()
        return found

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of the learners, beside their weights."""
        return {name: {"updates": learner.updates} for name, learner in self.learners.items()}
