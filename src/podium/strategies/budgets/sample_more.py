"""Sampling until the baseline is accurate enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError, within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.parts.advantage.shrunk_baseline import error_reduction, prior_bias
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, rollouts_of
from podium.strategies.sample.sample import Sample

__all__ = ["SampleMore"]


class SampleMore(Strategy):
    """`n` rollouts, then one at a time while another lowers the baseline's expected squared error by more than `cost`.

    The baseline is a mixture of the mean reward and `group.prior`, both scaled to [−1, 1]: see `ShrunkBaseline`.
    """

    reference = "V0.5, https://now-join-us.github.io/V0_5"
    n: int = 4  # at least 4
    most: int = 16  # rollouts of a task
    cost: Number = 0.0039  # of a rollout, in units of squared reward
    low: float = 0.0  # the world's lowest reward, which becomes −1
    high: float = 1.0  # the world's highest reward, which becomes 1
    draw: Draw = Draw()

    needs = ("group.prior",)

    def __post_init__(self) -> None:
        within(self, "n", 4)  # with fewer the mean is too noisy to contradict any prior
        within(self, "most", self.n)
        within(self, "cost", 0)
        if not self.low < self.high:
            raise PodiumError(f"SampleMore.low = {self.low} must lie below its high = {self.high}.")

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["index"] >= self.n for rollout in rollouts)

    def gain(self, rewards: Tensor, prior: Tensor) -> Tensor:
        """By how much one more rollout lowers the expected squared error, given rewards in [−1, 1]."""
        k = torch.tensor(float(len(rewards)), dtype=rewards.dtype)
        return error_reduction(prior_bias(rewards.mean(), prior, 1 / k), k)

    def goes_on(self, rewards: Tensor, prior: Tensor) -> bool:
        """Whether another rollout is sampled after these rewards, scaled to [−1, 1]."""
        return len(rewards) < self.most and bool(self.gain(rewards, prior) > self.cost)

    def plan(self, task: TaskRequest) -> Plan:
        if "group.prior" not in task.recalled:
            raise PodiumError("SampleMore reads group.prior before it samples: add a memory that recalls it.")
        prior = torch.as_tensor(task.recalled["group.prior"], dtype=torch.float64)
        rollouts = rollouts_of((yield [self.draw.play(task, self.n)]))
        while self.goes_on(self._scaled([r.columns["reward"] for r in rollouts]), prior):
            rollouts += rollouts_of((yield [self.draw.play(task, 1, first=len(rollouts), wave=len(rollouts))]))
        return rollouts

    def _scaled(self, rewards: list[float]) -> Tensor:
        """Rewards with `low` moved to −1 and `high` to 1."""
        return 2 * (torch.tensor(rewards, dtype=torch.float64) - self.low) / (self.high - self.low) - 1
