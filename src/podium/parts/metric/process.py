"""How well a reward model that is a log-ratio ranks answers, and what it makes of their steps."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Columns, Metric, Need
from podium.core.signal import Signal

__all__ = ["BestOfN", "PairwiseAccuracy"]


class _Scores(Metric):
    """Reads q_t = log π_of − log π_against at the tokens that the model wrote."""

    of: str = "reward_model"
    against: str = "ref"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Signal("logp", of=self.of), Signal("logp", of=self.against))

    def log_ratio(self, batch: Batch) -> Tensor:
        """[token] q."""
        ratio: Tensor = batch[Signal("logp", of=self.of)] - batch[Signal("logp", of=self.against)]
        return ratio.where(batch.action, 0)


class BestOfN(_Scores):
    """`rollout.best_of_n`: the smallest of coefficient · Σ q up to the end of each step; or the last one."""

    reference = "Free Process Rewards without Process Labels, https://github.com/PRIME-RL/ImplicitPRM"
    coefficient: float = 0.001
    over: str = "min"  # the steps: min, or sum (the value after the last step)

    provides = ("rollout.best_of_n",)

    def __post_init__(self) -> None:
        one_of(self, "over", ("min", "sum"))

    def steps(self, batch: Batch, coefficient: float) -> Tensor:
        """[step] coefficient · Σ q over the step: its process reward."""
        return coefficient * batch.reduce(self.log_ratio(batch), "token", "step", "sum")

    def cumulative(self, batch: Batch) -> Tensor:
        """[step] the score of the answer up to the end of the step."""
        return batch.scan(self.steps(batch, self.coefficient), "step", "rollout", reverse=False)

    def __call__(self, batch: Batch) -> Columns:
        if self.over == "sum":
            return {"rollout.best_of_n": batch.reduce(self.steps(batch, self.coefficient), "step", "rollout", "sum")}
        least = batch.reduce(self.cumulative(batch), "step", "rollout", "min")
        return {"rollout.best_of_n": least.where(least.isfinite(), 0)}  # an answer without steps scores 0


class PairwiseAccuracy(_Scores):
    """`group.pairwise_accuracy`: of the pairs with different rewards, the share that Σ q ranks alike; ½ without any.

    A pair counts by how far its rewards are apart. Of equal sums that of the later rollout ranks higher.
    """

    reference = "PRIME, https://github.com/PRIME-RL/PRIME"
    provides = ("group.pairwise_accuracy",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", *super().needs)

    def __call__(self, batch: Batch) -> Columns:
        reward, score = batch["rollout.reward"], batch.reduce(self.log_ratio(batch), "token", "rollout", "sum")
        pairs, counted = batch.pairs("rollout", "group"), batch.counted("rollout")
        apart = reward[pairs.left] - reward[pairs.right]
        if counted is not None:
            apart = apart.where(counted[pairs.left] & counted[pairs.right], 0)
        groups = batch.partition("rollout", "group")
        rank = groups.rank(score)
        alike = apart.abs().where((rank[pairs.left] - rank[pairs.right]) * apart > 0, 0)
        right, total = (groups.agg.sum(pairs.sum(x, "left", len(batch))) for x in (alike, apart.abs()))
        return {"group.pairwise_accuracy": torch.where(total > 0, right / total.where(total > 0, 1), 0.5)}
