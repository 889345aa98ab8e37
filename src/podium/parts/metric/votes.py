"""Accuracy of votes: of a weighted vote, and of the pseudo-labels of a majority vote."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Metric, Need
from podium.parts.reward.vote import parsed

__all__ = ["VoteQuality", "WeightedVote"]


class WeightedVote(Metric):
    """Reports `group.weighted_vote`: whether the answer with the largest sum of weights in the group is right.

    Ties go to the answer that was given first; rollouts without an answer do not vote.
    """

    reference = "ARRoL: Prune as You Generate"
    weight: str = "rollout.quality"  # a column of rollouts

    provides = ("group.weighted_vote",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.weight, "rollout.answer", "rollout.correct")

    def totals(self, batch: Batch) -> Tensor:
        """[rollout] The total weight of the rollouts of its group that give the same answer."""
        votes = batch.by("rollout", "group", where=parsed(batch))
        return votes.refine("rollout.answer").sum(batch[self.weight].to(batch.dtype))

    def winner(self, batch: Batch) -> Tensor:
        """[rollout] True at one rollout of each group that gives the winning answer."""
        return batch.by("rollout", "group", where=parsed(batch)).argmax(self.totals(batch))

    def __call__(self, batch: Batch) -> Columns:
        right = batch["rollout.correct"].to(batch.dtype)
        return {"group.weighted_vote": batch.by("rollout", "group").agg.max(right, self.winner(batch)).clamp(min=0)}


class VoteQuality(Metric):
    """Reports how good a majority vote was, judged by the true verdicts.

    `label_accuracy`: whether the pseudo-label is right; `majority_ratio`: the share of rollouts that gave it, those
    without an answer included in the denominator; `reward_accuracy`: the share of rewards that equal the true ones;
    `ground_truth_ratio`: the share of right rollouts; `pass`: whether any rollout is right.
    """

    reference = "TTRL, https://arxiv.org/abs/2504.16084"
    trained_only: bool = False  # over the trained rollouts only (`group.vote.trained.*`), instead of all that vote

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
