"""Rewards that depend on how uncertain the parts of a rollout were."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["PhaseEntropy"]


class PhaseEntropy(Reward):
    """Right: min(1, score − P) with P = max(0, H_think − alpha · H_answer); wrong: `otherwise`.

    H_think is the mean entropy before the first marked token of a rollout, H_answer the mean after its last one; a part
    without tokens has 0, and a rollout without a marked token is all thinking.
    """

    reference = "PEAR, https://github.com/iNLP-Lab/PEAR"
    alpha: Number = 1.0
    score: Number = 1.0  # of a right answer
    otherwise: Number = 0.0  # what a wrong one gets
    end: str = "token.end_of_thinking"  # a boolean column: the tokens between thinking and answer
    of: str = "sampler"  # whose entropy

    provides = ("rollout.reward", "rollout.reward.phase", "rollout.entropy.think", "rollout.entropy.answer")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.correct", Signal("entropy", of=self.of), self.end)

    def entropies(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[rollout] H_think, H_answer."""
        h, marked = batch[Signal("entropy", of=self.of)], batch[self.end] & batch.action
        seen = batch.scan(marked.to(batch.dtype), "token", "rollout", reverse=False)
        left = batch.scan(marked.to(batch.dtype), "token", "rollout", reverse=True)
        think = batch.reduce(h, "token", "rollout", "mean", where=seen == 0)
        answer = batch.reduce(h, "token", "rollout", "mean", where=(left == 0) & (seen > 0))
        return think, answer

    def __call__(self, batch: Batch) -> Columns:
        think, answer = self.entropies(batch)
        penalty = (think - self.alpha * answer).clamp(min=0)
        right = (self.score - penalty).clamp(max=1)
        reward = torch.where(batch["rollout.correct"].bool(), right, float(self.otherwise))
        return {
            "rollout.reward": reward,
            "rollout.reward.phase": -penalty,
            "rollout.entropy.think": think,
            "rollout.entropy.answer": answer,
        }
