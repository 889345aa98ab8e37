"""How sure decisions are, apart for right and wrong ones."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Metric

__all__ = ["DecisionCertainty"]


class DecisionCertainty(Metric):
    """Conditional decision entropy: the mean entropy of the decision given the reasoning, in nats, over rollouts whose
    answer is right (`batch.decision.right`) and wrong (`batch.decision.wrong`); 0 where there are none.

    `batch.decision.gap`: by how much it is larger for wrong ones; 0 where one kind is missing.
    """

    reference = "ExPO-HM, https://github.com/JingbiaoMei/ExPO-HM"

    needs = ("rollout.correct", "rollout.decision.nats", "rollout.decided")
    provides = ("batch.decision.right", "batch.decision.wrong", "batch.decision.gap")

    def __call__(self, batch: Batch) -> Columns:
        nats = batch["rollout.decision.nats"].to(batch.dtype)
        right, decided = batch["rollout.correct"] > 0, batch["rollout.decided"] > 0
        rollouts = batch.by("rollout").agg
        found = [decided & right, decided & ~right]
        sure, unsure = (rollouts.mean(nats, where) for where in found)
        both = rollouts.any(found[0]) & rollouts.any(found[1])
        return {
            "batch.decision.right": sure,
            "batch.decision.wrong": unsure,
            "batch.decision.gap": (unsure - sure).where(both, 0),
        }
