"""Rewards for generated kernels: correctness, speedup and coverage."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["Speedup"]


class Speedup(Reward):
    """Rewards a generated kernel for being correct, fast and responsible for the speed itself.

        r = correct_weight · correct + speed_weight · min(speedup, upper) + coverage_weight · correct · coverage

    A speedup below `lower` counts as 0. Coverage is the share of the run time spent in the generated kernels, low for
    one that leaves the work to a library. A run that failed, or whose kernel is a decoy, gets `penalty` instead.
    `rollout.reward` is the sum over steps.
    """

    reference = "Dr. Kernel, https://github.com/hkust-nlp/KernelGYM"
    correct_weight: Number = 0.5
    speed_weight: Number = 0.5
    upper: Number = 3.0  # cap of the speedup, ≥ 0
    lower: Number = 0.0  # a speedup below this counts as 0
    coverage_weight: Number = 0.5
    penalty: Number = 0.0  # the reward of a failed run or a decoy
    completed: str = "step.completed"  # a boolean column: the run completed and the kernel is no decoy

    provides = ("step.reward", "rollout.reward", "rollout.speedup", "rollout.coverage")

    def __post_init__(self) -> None:
        within(self, "upper", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.completed, "step.correct", "step.speedup", "step.coverage")

    def __call__(self, batch: Batch) -> Columns:
        speedup, coverage = batch["step.speedup"], batch["step.coverage"]
        correct = batch["step.correct"].to(speedup.dtype)
        speed = speedup.clamp(max=float(self.upper))
        reward = self.correct_weight * correct + self.speed_weight * speed.where(speed >= self.lower, 0)
        reward = reward + self.coverage_weight * correct * coverage
        reward = reward.where(batch[self.completed], float(self.penalty))
        return {
            "step.reward": reward,
            "rollout.reward": batch.reduce(reward, "step", "rollout", "sum"),
            "rollout.speedup": batch.reduce(speedup, "step", "rollout", "max").clamp(min=0),
            "rollout.coverage": batch.reduce(coverage, "step", "rollout", "mean"),
        }
