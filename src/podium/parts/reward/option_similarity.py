"""Rewards of options: what a model that embeds pictures and texts makes of them, and how sure the policy is."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["OptionCertainty", "SimilarityReward"]


class SimilarityReward(Reward):
    """r = max(0, weight · cos), with the cosine between a task and an answer as a frozen model embeds them: CLIPScore.

    It replaces the world's reward.
    """

    reference = "Hessel et al. 2021, CLIPScore, https://arxiv.org/abs/2104.08718"
    weight: Number = 2.5

    needs = ("rollout.similarity",)
    provides = ("rollout.reward",)

    def __post_init__(self) -> None:
        within(self, "weight", 0, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.reward": (self.weight * batch["rollout.similarity"]).clamp(min=0)}


class OptionCertainty(Reward):
    """r = k · p · (log p + H) of an option among the k of its view, with H = −Σ p log p.

    The rewards of a view sum to 0, and REINFORCE with them as advantages follows the exact gradient of −H: it
    minimises the entropy of the options. It replaces the world's reward.
    """

    reference = "TPT, https://arxiv.org/abs/2209.07511"

    needs = ("rollout.option_logp", "rollout.view")
    provides = ("rollout.reward",)

    def __call__(self, batch: Batch) -> Columns:
        cells, logp = batch.by("rollout", "group", "rollout.view"), batch["rollout.option_logp"]
        p = logp.exp()
        entropy = -cells.sum(p * logp)
        count = cells.spread(cells.agg.count()).to(p.dtype)
        return {"rollout.reward": count * p * (logp + entropy)}
