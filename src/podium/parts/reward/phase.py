"""Phase-dependent entropy penalties: uncertainty while thinking, set off against uncertainty while answering."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["PhaseEntropy"]


class PhaseEntropy(Reward):
    """Penalises entropy in the thinking phase of right answers, which makes them shorter.

        right: r = min(1, score − P),  P = max(0, H_think − alpha · H_answer);  wrong: r = otherwise

    H_think is the mean entropy before the first marked token of a rollout, H_answer the mean after the last. A phase
    without tokens has entropy 0; a rollout without a marked token is all thinking.
    """

    reference = "PEAR, https://github.com/iNLP-Lab/PEAR"
    alpha: Number = 1.0  # how much the entropy of the answer offsets that of the thinking
    score: Number = 1.0  # reward of a right answer before the penalty
    otherwise: Number = 0.0  # reward of a wrong answer
    end: str = "token.end_of_thinking"  # a boolean column: the tokens that separate thinking from the answer
    of: str = "sampler"  # whose entropy: sampler, old or a role

    provides = ("rollout.reward", "rollout.reward.phase", "rollout.entropy.think", "rollout.entropy.answer")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.correct", Signal("entropy", of=self.of), self.end)

    def entropies(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[rollout] H_think, H_answer."""
        h, marked = batch[Signal("entropy", of=self.of)], batch[self.end] & batch.action
        so_far = batch.scan(marked.to(batch.dtype), "token", "rollout", reverse=False)
        to_come = batch.scan(marked.to(batch.dtype), "token", "rollout", reverse=True)
        think = batch.reduce(h, "token", "rollout", "mean", where=so_far == 0)
        answer = batch.reduce(h, "token", "rollout", "mean", where=(to_come == 0) & (so_far > 0))
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
