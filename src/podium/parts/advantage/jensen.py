"""Leave-one-out credit for a multi-sample lower bound."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Advantage, Columns, Need
from podium.core.partition import Partition

__all__ = ["JensenGap"]


class JensenGap(Advantage):
    """What a rollout adds to the group's Jensen evidence lower bound: the bound minus the bound without it.

        A_i = log mean_j e^{x_j} − log mean_{j ≠ i} e^{x_j}

    A rollout that is alone in its group gets the first term only.
    """

    reference = "JEPO: Jensen's Evidence lower bound Policy Optimization, https://arxiv.org/abs/2503.19618"
    of: str = "rollout.answer.score"  # x, such as the log-likelihood of the right answer

    provides = ("rollout.advantage",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    def __call__(self, batch: Batch) -> Columns:
        x, groups = batch[self.of], batch.by("rollout", "group")
        pairs = batch.pairs("rollout", "group")
        counted = batch.counted("rollout")
        others = Partition(pairs.left, len(batch), where=None if counted is None else counted[pairs.right])
        n, m = groups.count().to(x.dtype), others.agg.count().to(x.dtype)
        total = groups.spread(groups.agg.logsumexp(x)) - n.log()
        rest = others.agg.logsumexp(x[pairs.right]) - m.clamp(min=1).log()
        return {"rollout.advantage": (total - rest.where(m > 0, 0)).where(n > 0, 0)}
