"""The plain strategy: n independent rollouts of each task."""

from __future__ import annotations

import dataclasses

from podium.core.batch import Purpose
from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.rollout.plan import Plan, Play, TaskRequest, Wave
from podium.sampler.request import Sampling

__all__ = ["Sample"]


class Sample(Strategy):
    """`n` rollouts of each task, and one greedy rollout of purpose `baseline` if asked."""

    n: int = 8
    temperature: Number = 1.0
    top_p: Number = 1.0
    greedy_baseline: bool = False

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "temperature", 0, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)

    @property
    def provides(self) -> tuple[str, ...]:
        return ("rollout.purpose",) if self.greedy_baseline else ()

    def sampling(self, default: Sampling) -> Sampling:
        """How tokens are drawn: this strategy's distribution with the run's limits."""
        return dataclasses.replace(default, temperature=self.temperature, top_p=self.top_p)

    def plan(self, task: TaskRequest) -> Plan:
        sampling = self.sampling(task.sampling)
        wave: Wave = [Play(task, self.n, sampling)]
        if self.greedy_baseline:
            greedy = dataclasses.replace(sampling, temperature=0.0, top_p=1.0)
            wave.append(Play(task, 1, greedy, purpose=Purpose.baseline, first=self.n))
        answers = yield wave
        return [rollout for answer in answers for rollout in answer]  # type: ignore[misc]
