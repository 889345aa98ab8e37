"""A success rate for each task that persists over training and forgets as the policy moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.memory import Memory, State, Table
from podium.core.part import Columns
from podium.core.signal import Signal

__all__ = ["SuccessTracker", "policy_shift"]


def policy_shift(batch: Batch, stored: str = "stored") -> Tensor:
    """[rollout] D: the mean |log π_stored − log π| over the tokens of a response kept from an earlier visit."""
    difference = batch[Signal("logp", of=stored)] - batch[Signal("logp")]
    return batch.reduce(difference.abs(), "token", "rollout", "mean")


class SuccessTracker(Memory):
    """Beta counts: alpha ← rho·alpha + r, beta ← rho·beta + 1 − r, value v = alpha / (alpha + beta).

    rho = clip(2^(−D / half_life), rho_min, rho_max), with D the policy's shift on the task's last stored response
    (`policy_shift`).
    """

    reference = "Single-stream Policy Optimization, https://arxiv.org/abs/2509.13232"
    half_life: float = 0.06  # of the memory, in units of D
    rho_min: float = 0.875
    rho_max: float = 0.96

    needs = ("rollout.reward", "group.policy_shift")
    provides = ("group.tracker.alpha", "group.tracker.beta", "group.tracker.value")

    def __post_init__(self) -> None:
        within(self, "half_life", 0, open_low=True)
        within(self, "rho_min", 0, 1)
        within(self, "rho_max", self.rho_min, 1)

    def initial(self) -> State:
        return {"counts": Table(default=(0.5, 0.5))}

    def prior(self, successes: Tensor, samples: int) -> tuple[Tensor, Tensor]:
        """Counts from offline samples, worth 1 / (1 − rho_min) samples in all."""
        size = 1.0 / (1.0 - self.rho_min)
        return size * (successes + 0.5) / (samples + 1), size * (samples - successes + 0.5) / (samples + 1)

    def keep_rate(self, shift: Tensor) -> Tensor:
        """rho: how much of the past is kept after the policy has moved by `shift`."""
        return torch.exp2(-shift / self.half_life).clamp(self.rho_min, self.rho_max)

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        alpha, beta = state["counts"].read(tasks, torch.float64).unbind(1)
        return {"group.tracker.alpha": alpha, "group.tracker.beta": beta, "group.tracker.value": alpha / (alpha + beta)}

    def observe(self, state: State, batch: Batch) -> State:
        tasks, reward = batch["group.task"], batch["rollout.reward"].double()
        if bool(((reward < 0) | (reward > 1)).any()):
            raise PodiumError("SuccessTracker counts successes: rewards must lie in [0, 1].")
        # Two groups of one task are one observation of it; a task without a rollout that counts was not observed.
        rollouts, groups = batch.by("rollout", "group.task"), batch.partition("rollout", "group").agg
        success = groups.max(rollouts.mean(reward)).cpu()
        observed = groups.any(rollouts.count() > 0).cpu()
        counts = state["counts"].read(tasks, torch.float64)
        shift = batch.by("group", "group.task").mean(batch["group.policy_shift"].double())
        seen = torch.stack([success, 1 - success], dim=1)
        after = self.keep_rate(shift)[:, None].cpu() * counts + seen
        return {"counts": state["counts"].write(tasks, torch.where(observed[:, None], after, counts))}
