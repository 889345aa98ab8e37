"""Moving averages of the effective rank of hidden states, the baselines of a rank bonus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns, Need
from podium.core.schedule import Count
from podium.parts.shape.rank import REFERENCE, rank_dynamics_of

__all__ = ["RankBaselines"]


class RankBaselines(Memory):
    """Moving averages of the effective rank of hidden states, its velocity and its acceleration.

        μ ← (1 − rate) · μ + rate · batch mean, from 0

    Schedules follow `rank.weight`, the weight of the rank bonus: 0 until a batch was seen, then 1, or with `success`
    1 − (S + 1)/2, S being the moving average of the mean reward.
    """

    reference = REFERENCE
    stride: Count = 40  # tokens between two measurements of the rank
    window: Count = 512  # tokens that each measurement spans
    rate: float = 0.3  # in [0, 1]
    success: bool = False  # whether the weight falls as rewards rise, instead of being 1

    provides = ("batch.rank.averages",)

    def __post_init__(self) -> None:
        within(self, "rate", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", rank_dynamics_of(self.stride, self.window))

    def initial(self) -> State:
        return {"mean": (0.0, 0.0, 0.0), "reward": 0.0, "seen": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.rank.averages": torch.tensor([state["mean"]], dtype=torch.float64)}

    def observe(self, state: State, batch: Batch) -> State:
        rollouts = batch.by("rollout").agg
        if not bool(rollouts.count().any()):
            return state
        batch_means = rollouts.mean(batch[rank_dynamics_of(self.stride, self.window)].double())[0].tolist()
        reward = float(rollouts.mean(batch["rollout.reward"].double())[0])

        def moved(old: float, new: float) -> float:
            return (1 - self.rate) * old + self.rate * new

        means = tuple(moved(old, new) for old, new in zip(state["mean"], batch_means, strict=True))
        return {"mean": means, "reward": moved(state["reward"], reward), "seen": state["seen"] + 1}

    def scalars(self, state: State) -> dict[str, float]:
        weight = 1 - (state["reward"] + 1) / 2 if self.success else 1.0
        return {"rank.weight": weight if state["seen"] else 0.0}
