"""TODO Rewards by how likely the right answer is after a rollout's reasoning: no verifier, and no sampled answer."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Metric
from podium.parts.reward.likelihood import answer_signal, log_mean_exp

__all__ = ["AnswerPerplexity"]


class AnswerPerplexity(Metric):
    """log of a group's mean of exp(Σ l), and exp(−mean of Σ l / length), for the right answer's tokens."""

    reference = "Likelihood-Based Reward Designs for General LLM Reasoning"

    needs = (answer_signal("logprob", "old"), "rollout.answer.ids")
    provides = ("group.answer.mc_logprob", "batch.answer.perplexity")

    def __call__(self, batch: Batch) -> Columns:
        total, groups, everyone = batch[self.needs[0]], batch.by("rollout", "group"), batch.by("rollout").agg
        length = torch.tensor([max(len(ids), 1) for ids in batch["rollout.answer.ids"]], device=batch.device)
        return {
            "group.answer.mc_logprob": groups.agg.mean(log_mean_exp(groups, total)),
            "batch.answer.perplexity": (-everyone.mean(total / length)).exp().where(everyone.count() > 0, 0),
        }
