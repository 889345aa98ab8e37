"""TODO How many turns an episode may take, from how many episodes have taken."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Metric

__all__ = ["TurnCost"]


class TurnCost(Metric):
    """What a rollout costs: Σ over turns of input · (tokens of the context) + output · (tokens written).

    A context that holds everything so far is sent again each turn, so the cost grows with the square of the turns. The
    cost of a solved task is that of all rollouts over those that are right.
    """

    reference = "More with Less: Turn-Control Strategies for Efficient Coding Agents"
    input: float = 3e-6  # price of a token read
    output: float = 1.5e-5  # and of a token written

    needs = ("turn.train_context", "rollout.correct")
    provides = ("rollout.cost", "rollout.turns", "batch.cost_of_solved")

    def __post_init__(self) -> None:
        within(self, "input", 0)
        within(self, "output", 0)

    def read(self, batch: Batch) -> Tensor:
        """[turn] the tokens of its context."""
        return torch.tensor([len(c) for c in batch["turn.train_context"]], dtype=batch.dtype, device=batch.device)

    def __call__(self, batch: Batch) -> Columns:
        turns, rollouts = batch.partition("turn", "rollout"), batch.by("rollout").agg
        cost = turns.total(self.input * self.read(batch) + self.output * batch.length("turn"))
        solved = rollouts.sum(batch["rollout.correct"].to(batch.dtype))
        return {
            "rollout.cost": cost,
            "rollout.turns": turns.lengths().to(batch.dtype),
            "batch.cost_of_solved": rollouts.sum(cost) / solved.clamp(min=1),
        }
