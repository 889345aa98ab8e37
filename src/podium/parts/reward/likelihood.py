"""Likelihood rewards: how likely the right answer is after a rollout's reasoning, without a verifier."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Columns, Need, Reward
from podium.core.partition import Partition
from podium.core.signal import Signal

__all__ = ["AnswerLikelihood", "LIKELIHOODS", "answer_likelihood", "log_mean_exp"]


# How the log-probabilities l of the answer's tokens are reduced to the signal that each kind of reward reads.
LIKELIHOODS = {
    "logprob": "sum",  # Σ l
    "avg_logprob": "mean",  # mean of l
    "prob": "sum",  # exp(Σ l)
    "avg_prob": "mean_exp",  # mean of exp(l)
    "jepo": "sum",  # log of the group's mean of exp(Σ l)
}


def answer_signal(kind: str, of: str, grad: bool = False) -> Signal:
    """The signal that a reward of this kind reads: the right answer scored after the rollout's reasoning."""
    return Signal("logp", of=of, level="rollout", grad=grad, passage="answer", reduce=LIKELIHOODS[kind])


def log_mean_exp(cells: Partition, x: Tensor, where: Tensor | None = None) -> Tensor:
    """[element] The logarithm of its cell's mean of e^x."""
    total = cells.agg.logsumexp(x, where)
    return cells.spread(total.where(total > -torch.inf, 0)) - cells.count(where).clamp(min=1).to(x.dtype).log()


def answer_likelihood(kind: str, groups: Partition, x: Tensor, where: Tensor | None = None) -> Tensor:
    """[rollout] The reward of this kind from its signal x; `where` restricts the group's mean of `jepo`."""
    if kind == "prob":
        return x.clamp(max=0).exp()
    return log_mean_exp(groups, x, where) if kind == "jepo" else x


class AnswerLikelihood(Reward):
    """Rewards a rollout by the likelihood of the right answer after its reasoning, so that no verifier is needed.

    With l the log-probabilities of the answer's tokens, by `kind`: logprob Σ l; avg_logprob mean of l; prob exp(Σ l);
    avg_prob mean of exp(l); jepo the log of the group's mean of exp(Σ l).
    """

    reference = "Likelihood-Based Reward Designs for General LLM Reasoning"
    kind: str = "logprob"  # logprob, avg_logprob, prob, avg_prob or jepo

    provides = ("rollout.reward", "rollout.reward.likelihood", "rollout.answer.score")

    def __post_init__(self) -> None:
        one_of(self, "kind", LIKELIHOODS)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (answer_signal(self.kind, "old"),)

    def __call__(self, batch: Batch) -> Columns:
        score = batch[answer_signal(self.kind, "old")]
        reward = answer_likelihood(self.kind, batch.by("rollout", "group"), score)
        return {"rollout.reward": reward, "rollout.reward.likelihood": reward, "rollout.answer.score": score}
