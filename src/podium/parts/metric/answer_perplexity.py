"""The likelihood of the right answer, as a metric."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Metric
from podium.parts.reward.likelihood import answer_signal, log_mean_exp

__all__ = ["AnswerPerplexity"]


class AnswerPerplexity(Metric):
    """Reports the log-likelihood and the perplexity of the right answer after the rollouts' reasoning.

    With l the log-probabilities of the answer's tokens, `group.answer.mc_logprob` is log mean exp(Σ l) over the group,
    a Monte Carlo estimate of the marginal likelihood; `batch.answer.perplexity` is exp(−mean of Σ l / length).
    """

    reference = "Likelihood-Based Reward Designs for General LLM Reasoning"
    overflows = "a perplexity above e^88 has no number in float32"

    needs = (answer_signal("logprob", "old"), "rollout.answer.ids")
    provides = ("group.answer.mc_logprob", "batch.answer.perplexity")

    def __call__(self, batch: Batch) -> Columns:
        total, groups, everyone = batch[self.needs[0]], batch.by("rollout", "group"), batch.by("rollout").agg
        length = torch.tensor([max(len(ids), 1) for ids in batch["rollout.answer.ids"]], device=batch.device)
        return {
            "group.answer.mc_logprob": groups.agg.mean(log_mean_exp(groups, total)),
            "batch.answer.perplexity": (-everyone.mean(total / length)).exp().where(everyone.count() > 0, 0),
        }
