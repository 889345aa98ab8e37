"""Ordered checks with partial credit, and rewards that say nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["Cascade", "RandomReward"]


class Cascade(Reward):
    """The reward of the last of several ordered checks that a rollout passes, plus partial credit, or all of it.

    `levels[i]` is the total after i checks in a row. A rollout that passes all of them adds `partial` times its share
    of tests passed, and gets `full` if it is also equivalent to a reference, or right where no reference exists.
    """

    reference = "EARL: Entropy-Aware RL Alignment of LLMs for Reliable RTL Code Generation"
    checks: tuple[str, ...] = ("rollout.parses", "rollout.interface_matches")  # columns that are 1 where passed
    levels: tuple[float, ...] = (0.0, 0.1, 0.2)  # totals, increasing: nothing, the first check, …
    tests: str = "rollout.fraction_tests_passed"  # a share
    partial: Number = 0.3
    complete: str = "rollout.equivalent"
    full: Number = 1.0

    provides = ("rollout.reward", "rollout.reward.cascade")

    def __post_init__(self) -> None:
        within(self, "partial", 0)
        if len(self.levels) != len(self.checks) + 1 or list(self.levels) != sorted(self.levels):
            raise PodiumError(
                f"Cascade.levels = {self.levels} must increase and have one number more than the checks {self.checks}."
            )

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*self.checks, self.tests, self.complete)

    def __call__(self, batch: Batch) -> Columns:
        def column(name: str) -> Tensor:
            return batch[name].to(batch.dtype)

        passed = [column(check) > 0 for check in self.checks]
        run = torch.stack([torch.ones_like(column(self.tests)), *passed]).bool().cumprod(0)
        total = torch.tensor(self.levels, dtype=batch.dtype, device=batch.device)[run.sum(0) - 1]
        through = run[-1] > 0
        reward = total + self.partial * column(self.tests).clamp(0, 1).where(through, 0)
        reward = torch.where(through & (column(self.complete) > 0), float(self.full), reward)
        return {"rollout.reward": reward, "rollout.reward.cascade": reward}


class RandomReward(Reward):
    """1 with this probability, else 0, whatever the answer: a control run that must not learn from its rewards."""

    reference = "Rethinking RLVR through Clipping, Entropy, and Spurious Reward"
    probability: Number = 0.5

    provides = ("rollout.reward", "rollout.reward.random")

    def __post_init__(self) -> None:
        within(self, "probability", 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        reward = (batch.random("rollout", "spurious reward") < self.probability).to(batch.dtype)
        return {"rollout.reward": reward, "rollout.reward.random": reward}
