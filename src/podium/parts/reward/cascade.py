"""Cascaded checks with partial credit; and random rewards, as a control."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["Cascade", "RandomReward"]


class Cascade(Reward):
    """Rewards a cascade of ordered checks: the more of them a rollout passes in a row, the higher its reward.

    `levels[i]` is the reward after the first i checks. A rollout that passes all of them adds `partial` times the share
    of tests it passes, and gets `full` if it is complete: equivalent to the reference, or right where there is none.
    """

    reference = "EARL: Entropy-Aware RL Alignment of LLMs for Reliable RTL Code Generation"
    checks: tuple[str, ...] = ("rollout.parses", "rollout.interface_matches")  # columns that are 1 where passed
    levels: tuple[float, ...] = (0.0, 0.1, 0.2)  # rewards after 0, 1, … checks, increasing
    tests: str = "rollout.fraction_tests_passed"  # the share of tests passed, in [0, 1]
    partial: Number = 0.3  # reward of all tests passed, ≥ 0
    complete: str = "rollout.equivalent"  # a column, above 0 where the rollout gets `full`
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
        in_a_row = torch.stack([torch.ones_like(column(self.tests)), *passed]).bool().cumprod(0)
        level = torch.tensor(self.levels, dtype=batch.dtype, device=batch.device)[in_a_row.sum(0) - 1]
        passed_all = in_a_row[-1] > 0
        reward = level + self.partial * column(self.tests).clamp(0, 1).where(passed_all, 0)
        reward = torch.where(passed_all & (column(self.complete) > 0), float(self.full), reward)
        return {"rollout.reward": reward, "rollout.reward.cascade": reward}


class RandomReward(Reward):
    """Spurious reward: 1 with the given probability, else 0, whatever the answer; a control that carries no signal."""

    reference = "Rethinking RLVR through Clipping, Entropy, and Spurious Reward"
    probability: Number = 0.5  # in [0, 1]

    provides = ("rollout.reward", "rollout.reward.random")

    def __post_init__(self) -> None:
        within(self, "probability", 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        reward = (batch.random("rollout", "spurious reward") < self.probability).to(batch.dtype)
        return {"rollout.reward": reward, "rollout.reward.random": reward}
