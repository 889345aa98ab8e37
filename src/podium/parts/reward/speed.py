"""Rewards of written kernels: right, fast, and doing the work themselves."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["Speedup"]


class Speedup(Reward):
    """r = correct_weight · correct + speed_weight · min(speedup, upper) + coverage_weight · coverage where correct.

    A speedup below `lower` counts as 0; `penalty` is paid where the run failed or the kernel is a decoy.

    Coverage is the share of the time that is spent in the generated kernels: a lazy one has little.
    """

    reference = "Dr. Kernel, https://github.com/hkust-nlp/KernelGYM"
    correct_weight: Number = 0.5
    speed_weight: Number = 0.5
    upper: Number = 3.0  # speedups above it pay no more
    lower: Number = 0.0  # a speedup below it counts as 0
    coverage_weight: Number = 0.5
    penalty: Number = 0.0
    completed: str = "step.completed"  # a boolean column: ran, and is no decoy

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
        paid = self.correct_weight * correct + self.speed_weight * speed.where(speed >= self.lower, 0)
        paid = paid + self.coverage_weight * correct * coverage
        reward = paid.where(batch[self.completed], float(self.penalty))
        return {
            "step.reward": reward,
            "rollout.reward": batch.reduce(reward, "step", "rollout", "sum"),
            "rollout.speedup": batch.reduce(speedup, "step", "rollout", "max").clamp(min=0),
            "rollout.coverage": batch.reduce(coverage, "step", "rollout", "mean"),
        }
