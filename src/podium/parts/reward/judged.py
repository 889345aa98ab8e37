"""Rewards for judging search results as one who knows the answer would."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["JudgedSearch"]


class JudgedSearch(Reward):
    """Adds rewards of judgements to that of the answer: R = Σ_t gamma^(t − 1) · r_t, the last r_t being the answer's.

    A judgement `yes` is ideal where the utility of the result exceeds the threshold, `no` elsewhere. An ideal one gets
    `match`; `yes` to a useless result, or a judgement that is neither, loses `accepted`; `no` to a useful one loses
    `rejected`. With `obey` an answer in place of the search that `no` demands is worth nothing. With `mean` the
    judgements count by their mean instead of their sum, so that longer searching earns no more. match = accepted =
    rejected = 0 is the reward of the answer alone.
    """

    reference = "ReSeek, https://github.com/TencentBAC/ReSeek"
    match: Number = 0.3
    accepted: Number = 0.6  # penalty, ≥ 0
    rejected: Number = 0.3  # penalty, ≥ 0
    threshold: Number = 0.7  # utility above which a result is useful
    gamma: Number = 1.0  # discount factor per judgement, in [0, 1]
    obey: bool = True  # whether an answer after `no` counts as wrong
    mean: bool = False

    provides = ("rollout.reward", "rollout.reward.judged", "turn.reward.judged", "turn.matched", "turn.was_judged")

    def __post_init__(self) -> None:
        within(self, "accepted", 0)
        within(self, "rejected", 0)
        within(self, "gamma", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", "turn.judged", "turn.useful", *(("turn.searched",) if self.obey else ()))

    def ideal(self, batch: Batch) -> Tensor:
        """[turn] Whether the ideal judgement is `yes`."""
        return batch["turn.useful"].to(batch.dtype) > self.threshold

    def __call__(self, batch: Batch) -> Columns:
        said: tuple[str, ...] = batch["turn.judged"]

        def saying(*words: str) -> Tensor:
            return torch.tensor([word in words for word in said], dtype=torch.bool, device=batch.device)

        judged, yes, no = ~saying(""), saying("yes"), saying("no")
        useful = self.ideal(batch)
        match = (yes & useful) | (no & ~useful)
        wrong = torch.where(no, -float(self.rejected), -float(self.accepted)).to(batch.dtype)
        reward = torch.where(match, float(self.match), wrong).where(judged, 0).to(batch.dtype)
        turns = batch.partition("turn", "rollout")
        ones = torch.ones_like(reward)
        before = batch.scan(judged.to(batch.dtype), "turn", "rollout", decay=ones, reverse=False)
        before = before - judged.to(batch.dtype)
        count = turns.agg.sum(judged.to(batch.dtype))
        total = turns.agg.sum(reward * torch.pow(ones * self.gamma, before))
        if self.mean:
            total = total / count.clamp(min=1)
        answer = batch["rollout.reward"] * torch.pow(torch.ones_like(count) * self.gamma, count)
        if self.obey:
            after_no = batch.shift(no.to(batch.dtype), "turn", "rollout") > 0
            answer = answer.where(~turns.agg.any(after_no & ~batch["turn.searched"].bool()), 0)
        return {
            "rollout.reward": answer + total,
            "rollout.reward.judged": total,
            "turn.reward.judged": reward,
            "turn.matched": match,
            "turn.was_judged": judged,
        }
