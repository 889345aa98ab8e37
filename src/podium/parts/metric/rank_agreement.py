"""How well a reward ranks the rollouts of a group, where the truth is known."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Metric, Need
from podium.core.relation import Relation

__all__ = ["RankAgreement"]


class RankAgreement(Metric):
    """Reports `batch.rank_agreement`: Spearman's rank correlation of a column with the truth, the mean over groups.

    Equal values share the mean of their ranks. A group in which the column does not vary, though the truth does, counts
    as 0; one in which the truth does not vary has no part in the mean.
    """

    of: str = "rollout.arena.reward"
    truth: str = "rollout.quality"

    provides = ("batch.rank_agreement",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of, self.truth)

    def by_group(self, batch: Batch) -> Tensor:
        """[group] the rank correlation; NaN where the truth does not vary."""
        groups, pairs = batch.by("rollout", "group"), _compared(batch)
        x, y = (groups.centre(_ranks(batch[name].double(), pairs)) for name in (self.of, self.truth))
        varies, spread = groups.agg.sum(y * y) > 0, (groups.agg.sum(x * x) * groups.agg.sum(y * y)).sqrt()
        agreement = groups.agg.sum(x * y) / spread.where(spread > 0, 1)
        return agreement.where(varies, float("nan")).to(batch.dtype)

    def __call__(self, batch: Batch) -> Columns:
        return {"batch.rank_agreement": self.by_group(batch).nanmean()[None]}


def _compared(batch: Batch) -> Relation:
    """All ordered pairs of different rollouts of a group that count."""
    pairs, counted = batch.pairs("rollout", "group"), batch.counted("rollout")
    if counted is None:
        return pairs
    kept = counted[pairs.left] & counted[pairs.right]
    return Relation(pairs.level, pairs.left[kept], pairs.right[kept])


def _ranks(x: Tensor, pairs: Relation) -> Tensor:
    """[rollout] how many others of its group have a smaller value, and half of those who have the same."""
    mine, others = x[pairs.left], x[pairs.right]
    return pairs.sum((others < mine).double() + 0.5 * (others == mine).double(), "left", len(x))
