"""Sampling until the baseline is good enough."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError, within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.parts.advantage.shrunk_baseline import error_reduction, prior_bias
from podium.strategies.requests import Plan, Play, TaskRequest
from podium.strategies.sample.sample import Sample

__all__ = ["SampleMore"]


class SampleMore(Strategy):
    """`n` rollouts, then one more at a time while that takes more than `cost` off the baseline's expected square error.

    The error is that of a mixture of the mean reward and `group.prior`, both in [−1, 1]: see `ShrunkBaseline`.
    """

    reference = "V0.5, https://now-join-us.github.io/V0_5"
    n: int = 4  # at least 4
    most: int = 16  # rollouts
    cost: Number = 0.0039  # of a rollout, in squared reward
    low: float = 0.0  # the world's lowest reward
    high: float = 1.0  # and its highest: what −1 and 1 stand for
    temperature: Number = 1.0
    top_p: Number = 1.0

    needs = ("group.prior",)

    def __post_init__(self) -> None:
        within(self, "n", 4)  # with fewer the mean is too noisy to contradict any prior
        within(self, "most", self.n)
        within(self, "cost", 0)
        within(self, "temperature", 0, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)
        if not self.low < self.high:
            raise PodiumError(f"SampleMore.low = {self.low} must lie below its high = {self.high}.")

    def worth(self, rewards: Tensor, prior: Tensor) -> Tensor:
        """What one more rollout would take off the squared error, beside rewards in [−1, 1]."""
        k = torch.tensor(float(len(rewards)), dtype=rewards.dtype)
        return error_reduction(prior_bias(rewards.mean(), prior, 1 / k), k)

    def goes_on(self, rewards: Tensor, prior: Tensor) -> bool:
        return len(rewards) < self.most and bool(self.worth(rewards, prior) > self.cost)

    def plan(self, task: TaskRequest) -> Plan:
        sampling = Sample(temperature=self.temperature, top_p=self.top_p).sampling(task.sampling)
        if "group.prior" not in task.known:
            raise PodiumError("SampleMore reads group.prior before it samples: add a memory that recalls it.")
        prior = torch.as_tensor(task.known["group.prior"], dtype=torch.float64)
        answers: list[Any] = yield [Play(task, self.n, sampling)]
        rollouts = answers[0]
        while True:
            raw = torch.tensor([r.columns["reward"] for r in rollouts], dtype=torch.float64)
            if not self.goes_on(2 * (raw - self.low) / (self.high - self.low) - 1, prior):
                return rollouts
            answers = yield [Play(task, 1, sampling, first=len(rollouts), wave=len(rollouts))]
            rollouts = [*rollouts, *answers[0]]
