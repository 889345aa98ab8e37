"""Length rewards: penalties for overlong answers, bonuses for length, and hard length limits."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.facts import RunFacts
from podium.core.part import Columns, Reward
from podium.core.schedule import Count, Number, Schedule

__all__ = ["LengthBonus", "LengthLimit", "Overlong", "WithinLength"]


class Overlong(Reward):
    """Soft overlong punishment: a penalty that grows linearly over the last `buffer` tokens before the length limit.

        r ← r − factor · max(0, length − (max_length − buffer)) / buffer

    factor = 0 is no penalty.
    """

    reference = "DAPO, https://arxiv.org/abs/2503.14476"
    max_length: Number = 20480  # tokens; or a share of the run's limit
    buffer: Number = 4096  # tokens before the limit over which the penalty grows, ≥ 1
    factor: Number = 1.0  # penalty at the limit, ≥ 0

    needs = ("rollout.reward", "rollout.length")
    provides = ("rollout.reward", "rollout.reward.overlong")

    def __post_init__(self) -> None:
        within(self, "buffer", 1)
        within(self, "factor", 0)
        known = not isinstance(self.max_length, Schedule) and not isinstance(self.buffer, Schedule)
        if known and self.max_length < self.buffer:
            raise PodiumError(f"Overlong.max_length = {self.max_length} is smaller than its buffer {self.buffer}.")

    @property
    def neutral(self) -> Overlong:
        return self.replace(factor=0.0)

    def __call__(self, batch: Batch) -> Columns:
        beyond = batch["rollout.length"] - (self.max_length - self.buffer)
        penalty = (-beyond / self.buffer * self.factor).clamp(max=0.0)
        return {"rollout.reward": batch["rollout.reward"] + penalty, "rollout.reward.overlong": penalty}


class LengthBonus(Reward):
    """Adds weight · min(length / reference_length, 1) to the reward, so that longer answers pay up to a length."""

    reference_length: int = 1024  # tokens, ≥ 1
    weight: Number = 0.1

    needs = ("rollout.reward", "rollout.length")
    provides = ("rollout.reward", "rollout.reward.length")

    def __post_init__(self) -> None:
        within(self, "reference_length", 1)

    def __call__(self, batch: Batch) -> Columns:
        bonus = self.weight * (batch["rollout.length"] / self.reference_length).clamp(max=1.0)
        return {"rollout.reward": batch["rollout.reward"] + bonus, "rollout.reward.length": bonus}


class LengthLimit(Reward):
    """Truncation penalty: the reward is 0 for a rollout that was truncated or exceeds its length limit.

    With thresholds the limit depends on the difficulty: limits[k] if the group's pass rate reaches k of them. The pass
    rate is taken before the penalty.
    """

    reference = "DLER, https://github.com/NVlabs/DLER"
    limits: tuple[Count, ...] = (4000,)  # tokens; one more than there are thresholds
    thresholds: tuple[float, ...] = ()  # pass rates, increasing

    provides = ("rollout.reward", "group.length_limit")

    def __post_init__(self) -> None:
        if len(self.limits) != len(self.thresholds) + 1 or list(self.thresholds) != sorted(set(self.thresholds)):
            raise PodiumError(
                f"LengthLimit has the limits {self.limits} and the thresholds {self.thresholds}: "
                "give increasing thresholds, and one limit more."
            )

    @property
    def needs(self) -> tuple[str, ...]:
        common = ("rollout.reward", "rollout.length", "rollout.truncated")
        return (*common, "rollout.correct") if self.thresholds else common

    def inert(self, facts: RunFacts) -> Iterable[str]:
        if min(self.limits) > facts.max_tokens:
            yield (
                f"rewards answers of up to {min(self.limits)} tokens, and no answer has more than {facts.max_tokens}. "
                f"Set reward.LengthLimit.limits=[{max(facts.max_tokens // 2, 1)}]."
            )

    def limit(self, pass_rate: Tensor) -> Tensor:
        """[group] The limit at each pass rate."""
        reached = (pass_rate[:, None] >= pass_rate.new_tensor(self.thresholds)).sum(1)
        return torch.tensor(self.limits, device=pass_rate.device)[reached]

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.by("rollout", "group")
        limit = self.limit(groups.agg.mean(batch["rollout.correct"] if self.thresholds else reward)).to(batch.dtype)
        cut = batch["rollout.truncated"] | (batch["rollout.length"] > groups.spread(limit))
        return {"rollout.reward": reward.masked_fill(cut, 0), "group.length_limit": limit}


class WithinLength(Reward):
    """A reward of its own for short answers: `rollout.reward.short` is 1 up to `max_length` tokens, else 0.

    It is not added to `rollout.reward`.
    """

    reference = "GDPO, https://arxiv.org/abs/2601.05242"
    max_length: Number = 4000  # tokens, ≥ 1; or a share of the run's limit
    when_right: bool = False  # whether only right answers have it

    provides = ("rollout.reward.short",)

    def __post_init__(self) -> None:
        within(self, "max_length", 1)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("rollout.length", "rollout.correct") if self.when_right else ("rollout.length",)

    def __call__(self, batch: Batch) -> Columns:
        short = batch["rollout.length"] <= self.max_length
        if self.when_right:
            short = short & batch["rollout.correct"].bool()
        return {"rollout.reward.short": short.to(batch.dtype)}
