"""Rewards without labels: the rollouts of a task vote on its answer."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Metric, Reward

__all__ = ["Majority", "VoteQuality", "parsed"]


def parsed(batch: Batch) -> Tensor:
    """[rollout] whether it has an answer at all."""
    return torch.tensor([bool(answer) for answer in batch["rollout.answer"]], device=batch.device)


class Majority(Reward):
    """r = [answer = the most frequent answer of the group]; a tie goes to the answer that was given first.

    Rollouts that count vote, whether they are trained or not; one without an answer has no vote and gets 0. A group
    without any answer is not trained. The true label is never read.
    """

    reference = "TTRL, https://arxiv.org/abs/2504.16084"

    needs = ("rollout.answer",)
    provides = ("rollout.reward", "rollout.reward.majority", "group.majority", "group.keep.voted")

    def leader(self, batch: Batch) -> Tensor:
        """[rollout] True at one rollout of each group that gives its most frequent answer."""
        votes = batch.by("rollout", "group", where=parsed(batch))
        return votes.argmax(votes.refine("rollout.answer").count())

    def __call__(self, batch: Batch) -> Columns:
        answers, leader = batch["rollout.answer"], self.leader(batch)
        groups = batch.partition("rollout", "group")
        ((code, _),) = batch.codes("rollout", "rollout.answer")
        reward = (parsed(batch) & (code == groups.max(code, leader))).to(batch.dtype)
        row = groups.agg.max(torch.arange(len(batch), device=batch.device), leader).tolist()
        voted = groups.agg.any(leader)
        label = tuple(answers[i] if there else "" for i, there in zip(row, voted.tolist(), strict=True))
        return {
            "rollout.reward": reward,
            "rollout.reward.majority": reward,
            "group.majority": label,
            "group.keep.voted": voted,
        }


class VoteQuality(Metric):
    """How good the vote was, by the true verdicts: of the label, of the rewards, and of the rollouts themselves.

    The share of the votes divides by all rollouts, those without an answer included.
    """

    reference = "TTRL, https://arxiv.org/abs/2504.16084"
    trained_only: bool = False  # over the rollouts that are trained instead of all that vote

    needs = ("rollout.correct", "rollout.reward.majority")

    @property
    def _prefix(self) -> str:
        return "group.vote.trained" if self.trained_only else "group.vote"

    @property
    def provides(self) -> tuple[str, ...]:
        names = ("label_accuracy", "majority_ratio", "reward_accuracy", "ground_truth_ratio", "pass")
        return tuple(f"{self._prefix}.{name}" for name in names)

    def __call__(self, batch: Batch) -> Columns:
        right, reward = batch["rollout.correct"].to(batch.dtype), batch["rollout.reward.majority"]
        where = batch.trained("rollout", empty=True) if self.trained_only else None
        groups = batch.by("rollout", "group", where=where).agg
        values = (
            groups.mean(right, reward == 1),  # verdicts depend on the answer alone, so this is 0 or 1
            groups.mean(reward),
            groups.mean((reward == right).to(batch.dtype)),
            groups.mean(right),
            groups.any(right > 0).to(batch.dtype),
        )
        return dict(zip(self.provides, values, strict=True))
