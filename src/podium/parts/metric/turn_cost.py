"""The price of multi-turn episodes in tokens read and written."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Metric

__all__ = ["TurnCost"]


class TurnCost(Metric):
    """Reports the cost of a rollout: Σ over turns of input · (context tokens) + output · (tokens written).

    Each turn sends its whole context again, so the cost grows quadratically with the number of turns.
    `batch.cost_of_solved` is the cost of all rollouts divided by the number of right ones.
    """

    reference = "More with Less: Turn-Control Strategies for Efficient Coding Agents"
    input: float = 3e-6  # price per token read, ≥ 0
    output: float = 1.5e-5  # price per token written, ≥ 0

    needs = ("turn.train_context", "rollout.correct")
    provides = ("rollout.cost", "rollout.turns", "batch.cost_of_solved")

    def __post_init__(self) -> None:
        within(self, "input", 0)
        within(self, "output", 0)

    def read(self, batch: Batch) -> Tensor:
        """[turn] The number of tokens in its context."""
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
