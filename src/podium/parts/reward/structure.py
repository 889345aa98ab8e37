"""Structural rewards: truncated failures ranked by their entropy pattern, and a bonus for short right answers."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Count, Number
from podium.core.signal import Signal

__all__ = ["BrevityBonus", "RankTruncated"]

ENTROPY = Signal("entropy", of="sampler")


class RankTruncated(Reward):
    """Ranking reward: in a group without a success, the N truncated rollouts get highest · (1 − rank / (N − 1)).

    The rank is by how many others a rollout dominates, ties by index; a single one gets `highest`. One rollout
    dominates another if its peak entropy, the mean over its `top` share of highest-entropy tokens, is higher and its
    mean entropy lower: few decisive choices rather than uncertainty throughout. highest = 0 is the plain reward.
    """

    reference = "R³: Replay, Reflection and Ranking Rewards"
    top: Number = 0.2  # share of a rollout's tokens, in [0, 1]
    highest: Number = 0.5  # should stay below the reward of a success
    without: str | None = None  # a boolean column: rollouts that are left out, such as rollout.replayed

    provides = ("rollout.reward", "rollout.reward.rank", "rollout.dominates")

    def __post_init__(self) -> None:
        within(self, "top", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", "rollout.truncated", ENTROPY, *([self.without] if self.without else []))

    def peak(self, batch: Batch) -> Tensor:
        """[rollout] The mean of its max(1, ⌊top · length⌋) largest entropies."""
        entropy, tokens = batch[ENTROPY], batch.by("token", "rollout", where=batch.action)
        count = (self.top * batch.length().double()).floor().clamp(min=1)
        rank = tokens.rank(-entropy)
        largest = (rank >= 0) & (rank < batch.spread(count, "rollout", "token"))
        return batch.reduce(entropy, "token", "rollout", "mean", where=largest)

    def mean(self, batch: Batch) -> Tensor:
        """[rollout] The mean entropy."""
        return batch.reduce(batch[ENTROPY], "token", "rollout", "mean")

    def ranked(self, batch: Batch) -> Tensor:
        """[rollout] Whether it is ranked: truncated, in a group without a success."""
        counts = torch.ones(len(batch), dtype=torch.bool, device=batch.device)
        counted = batch.counted("rollout")
        if counted is not None:
            counts = counts & counted
        if self.without is not None:
            counts = counts & ~batch[self.without]
        solved = batch.partition("rollout", "group").agg.any(batch["rollout.reward"] > 0, counts)
        truncated: Tensor = batch["rollout.truncated"]
        return truncated & counts & ~batch.spread(solved, "group", "rollout")

    def dominance(self, batch: Batch) -> Tensor:
        """[rollout] How many of the ranked rollouts of its group it dominates."""
        peak, mean, pairs = self.peak(batch), self.mean(batch), batch.pairs("rollout", "group")
        ranked = self.ranked(batch)
        left, right = pairs.left, pairs.right
        above = (peak[left] > peak[right]) & (mean[left] < mean[right]) & ranked[left] & ranked[right]
        return pairs.sum(above.to(batch.dtype), "left", len(batch))

    def __call__(self, batch: Batch) -> Columns:
        ranked, dominates = self.ranked(batch), self.dominance(batch)
        groups = batch.partition("rollout", "group")
        rank = batch.by("rollout", "group").rank(-dominates, ranked).to(batch.dtype)
        last = (groups.count(ranked) - 1).clamp(min=1)
        bonus = torch.where(ranked, self.highest * (1 - rank / last), 0)
        return {
            "rollout.reward": batch["rollout.reward"] + bonus,
            "rollout.reward.rank": bonus,
            "rollout.dominates": dominates,
        }


class BrevityBonus(Reward):
    """Adds weight · max(0, 1 − length / max_length) to the reward of a right answer, so that shorter ones earn more."""

    reference = "R³: Replay, Reflection and Ranking Rewards"
    max_length: Count = 32768  # tokens, ≥ 1
    weight: Number = 1.0

    needs = ("rollout.reward", "rollout.correct", "rollout.length")
    provides = ("rollout.reward", "rollout.reward.brevity")

    def __post_init__(self) -> None:
        within(self, "max_length", 1)

    def __call__(self, batch: Batch) -> Columns:
        saved = (1 - batch["rollout.length"] / self.max_length).clamp(min=0)
        bonus = self.weight * saved * batch["rollout.correct"].to(batch.dtype)
        return {"rollout.reward": batch["rollout.reward"] + bonus, "rollout.reward.brevity": bonus}
