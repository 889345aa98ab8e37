"""Metrics of an implicit process reward model: best-of-N scores and pairwise ranking accuracy."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Columns, Metric, Need
from podium.core.signal import Signal
from podium.parts.annotate.marks import overlapping

__all__ = ["BestChoice", "BestOfN", "PairwiseAccuracy"]


class _Scores(Metric):
    """Reads the implicit token reward q_t = log π_of − log π_against at the tokens that the model wrote."""

    of: str = "reward_model"  # old, or a role
    against: str = "ref"  # a role

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Signal("logp", of=self.of), Signal("logp", of=self.against))

    def log_ratio(self, batch: Batch) -> Tensor:
        """[token] The implicit reward q; 0 at the world's tokens."""
        ratio: Tensor = batch[Signal("logp", of=self.of)] - batch[Signal("logp", of=self.against)]
        return ratio.where(batch.action, 0)


class BestOfN(_Scores):
    """Reports `rollout.best_of_n`, the score by which an implicit process reward model ranks answers for best-of-N.

        score = min over the steps k of coefficient · Σ_{t ≤ end of step k} q_t

    over = "sum" takes the value after the last step, the outcome reward, instead of the minimum. Steps are those of the
    batch, such as turns; with a `pattern` they end where the text of the answer matches it, and with the answer.
    """

    reference = "Free Process Rewards without Process Labels, https://github.com/PRIME-RL/ImplicitPRM"
    coefficient: float = 0.001  # β of the reward model
    over: str = "min"  # how the steps are reduced: min or sum
    pattern: str = ""  # a regular expression; empty: the steps of the batch

    provides = ("rollout.best_of_n",)

    def __post_init__(self) -> None:
        one_of(self, "over", ("min", "sum"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, *(("turn.text", "token.end") if self.pattern else ()))

    def steps(self, batch: Batch, coefficient: float) -> Tensor:
        """[step] The process reward coefficient · Σ q over the tokens of the step."""
        return coefficient * batch.reduce(self.log_ratio(batch), "token", "step", "sum")

    def cumulative(self, batch: Batch) -> Tensor:
        """[step] The score of the answer up to the end of the step."""
        return batch.scan(self.steps(batch, self.coefficient), "step", "rollout", reverse=False)

    def __call__(self, batch: Batch) -> Columns:
        if self.over == "sum":
            return {"rollout.best_of_n": batch.reduce(self.steps(batch, self.coefficient), "step", "rollout", "sum")}
        if self.pattern:
            ends = overlapping(batch, lambda text: (match.span() for match in re.finditer(self.pattern, text)))
            scores = self.coefficient * batch.scan(self.log_ratio(batch), "token", "rollout", reverse=False)
            last = batch.last("token", "rollout", where=batch.action)
            least = batch.partition("token", "rollout").agg.min(scores, batch.action & (ends | last))
        else:
            least = batch.reduce(self.cumulative(batch), "step", "rollout", "min")
        return {"rollout.best_of_n": least.where(least.isfinite(), 0)}  # an answer without steps scores 0


class BestChoice(Metric):
    """Reports whether the answer chosen among those to a task by their scores is right, by `of` and by a vote.

    `group.best_of_n.right` is the reward of the rollout with the largest score. `group.best_of_n.vote` is the mean
    reward of the rollouts whose answer has the largest total of sigmoid(score). Ties go to what was sampled first.
    """

    reference = "Free Process Rewards without Process Labels, https://github.com/PRIME-RL/ImplicitPRM"
    of: str = "rollout.best_of_n"  # the scores

    provides = ("group.best_of_n.right", "group.best_of_n.vote")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of, "rollout.reward", "rollout.answer")

    def __call__(self, batch: Batch) -> Columns:
        score, reward, groups = batch[self.of], batch["rollout.reward"], batch.by("rollout", "group")
        alike = groups.refine("rollout.answer")
        weight = alike.spread(alike.agg.sum(score.sigmoid()))
        voted = alike.spread(alike.agg.sum(groups.argmax(weight).to(score.dtype))) > 0
        return {
            "group.best_of_n.right": groups.agg.sum(reward.where(groups.argmax(score), 0)),
            "group.best_of_n.vote": groups.agg.mean(reward, voted),
        }


class PairwiseAccuracy(_Scores):
    """Reports `group.pairwise_accuracy`: the share of pairs with different rewards that Σ q ranks in the same order.

    A pair is weighted by the difference of its rewards; ½ without any such pair. Ties in Σ q rank the later rollout
    higher.
    """

    reference = "PRIME, https://github.com/PRIME-RL/PRIME"
    provides = ("group.pairwise_accuracy",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", *super().needs)

    def __call__(self, batch: Batch) -> Columns:
        reward, score = batch["rollout.reward"], batch.reduce(self.log_ratio(batch), "token", "rollout", "sum")
        pairs, counted = batch.pairs("rollout", "group"), batch.counted("rollout")
        gap = reward[pairs.left] - reward[pairs.right]
        if counted is not None:
            gap = gap.where(counted[pairs.left] & counted[pairs.right], 0)
        groups = batch.partition("rollout", "group")
        rank = groups.rank(score)
        concordant = gap.abs().where((rank[pairs.left] - rank[pairs.right]) * gap > 0, 0)
        right, total = (groups.agg.sum(pairs.sum(x, "left", len(batch))) for x in (concordant, gap.abs()))
        return {"group.pairwise_accuracy": torch.where(total > 0, right / total.where(total > 0, 1), 0.5)}
