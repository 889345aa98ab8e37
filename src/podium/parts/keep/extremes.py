"""Of each group the best and the worst rollout, as a pair."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Keep

__all__ = ["KeepExtremes"]


class KeepExtremes(Keep):
    """Of each group only the rollouts with the highest and the lowest reward are trained, of equals the first ones.

    Groups whose rewards are all equal have no pair, and are not trained. The others still count in their group's
    statistics.
    """

    reference = "Meng et al. 2024, SimPO, https://arxiv.org/abs/2405.14734, section 3 (instruct setup)"

    needs = ("rollout.reward",)
    provides = ("rollout.keep.extreme",)

    def __call__(self, batch: Batch) -> Columns:
        trained = batch.trained("rollout")
        groups, reward = batch.by("rollout", "group", where=trained), batch["rollout.reward"]
        extreme = groups.argmax(reward) | groups.argmax(-reward)
        return {"rollout.keep.extreme": extreme & trained & (groups.max(reward) > groups.min(reward))}
