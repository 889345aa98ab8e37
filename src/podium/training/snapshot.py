"""A snapshot of a run in memory: weights, optimisers, memories and counters, to return to exactly."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from podium.core.memory import State
from podium.policy import Policy
from podium.training.run import Run

__all__ = ["RunSnapshot"]


@dataclass(frozen=True)
class RunSnapshot:
    """What an iteration changes, as it was."""

    weights: Mapping[str, Mapping[str, Tensor]]  # by role: learners, and roles that follow one
    optimizers: Mapping[str, Mapping[str, Any]]
    updates: Mapping[str, tuple[int, int]]
    memories: Mapping[str, State]
    progress: State
    iteration: int
    tokens: int

    @classmethod
    def of(cls, run: Run) -> Self:
        """A snapshot of the run as it is now."""
        learners = run.trainer.learners
        return cls(
            weights={name: {k: p.detach().clone() for k, p in m.named_parameters()} for name, m in _models(run)},
            optimizers={name: copy.deepcopy(x.optimizer.state_dict()) for name, x in learners.items()},
            updates={name: (x.updates, x.since) for name, x in learners.items()},
            memories=copy.deepcopy(run.memories.states),
            progress=copy.deepcopy(run.progress),
            iteration=run.iteration,
            tokens=run.tokens,
        )

    @torch.no_grad()
    def restore(self, run: Run) -> None:
        """Put the run back, bit for bit."""
        for name, model in _models(run):
            for key, parameter in model.named_parameters():
                parameter.copy_(self.weights[name][key])
            model.bump()
        for name, learner in run.trainer.learners.items():
            learner.optimizer.load_state_dict(copy.deepcopy(dict(self.optimizers[name])))
            learner.updates, learner.since = self.updates[name]
        run.memories.states = copy.deepcopy(dict(self.memories))
        run.progress = copy.deepcopy(self.progress)
        run.iteration, run.tokens, run.pending = self.iteration, self.tokens, None

    def holds(self, run: Run) -> bool:
        """Whether the run's weights are those of the snapshot, bit for bit."""
        return all(
            torch.equal(parameter, self.weights[name][key])
            for name, model in _models(run)
            for key, parameter in model.named_parameters()
        )


def _models(run: Run) -> list[tuple[str, Policy]]:
    trainer = run.trainer
    learners = [(name, learner.policy) for name, learner in trainer.learners.items()]
    return [*learners, *((name, trainer.roles[name]) for name in trainer.moving)]
