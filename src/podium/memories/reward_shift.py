"""The reward shift of a quality loss: a moving average of implicit rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.signal import Signal

__all__ = ["RewardShift"]


class RewardShift(Memory):
    """The moving average δ of the implicit reward Σ_t (log π_old − log π_ref) / temperature over rollouts; 0 at first.

    The quality loss of mixed preference optimisation compares implicit rewards with it.
    """

    reference = "Wang et al. 2024, Mixed Preference Optimization, https://arxiv.org/abs/2411.10442"
    temperature: float = 10.0  # 1 / beta, > 0
    decay: float = 0.9  # of the average, in [0, 1]

    needs = (Signal("logp", of="old"), Signal("logp", of="ref"))
    provides = ("batch.reward_shift",)

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)
        within(self, "decay", 0, 1)

    def initial(self) -> State:
        return {"shift": 0.0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.reward_shift": torch.tensor([state["shift"]])}

    def observe(self, state: State, batch: Batch) -> State:
        old, ref = (batch[signal] for signal in self.needs)
        reward = batch.reduce(old - ref, "token", "rollout", "sum") / self.temperature
        rollouts = batch.by("rollout").agg
        if not int(rollouts.count()[0]):
            return state
        mean = float(rollouts.mean(reward.double())[0])
        return {"shift": self.decay * state["shift"] + (1 - self.decay) * mean}

    def scalars(self, state: State) -> dict[str, float]:
        return {"reward_shift": state["shift"]}
