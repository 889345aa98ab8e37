"""Baselines from rollouts that are sampled for comparison and not trained."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.core.part import Annotate, Columns

__all__ = ["GreedyBaseline"]


class GreedyBaseline(Annotate):
    """Writes `group.baseline`, the reward of the group's greedy rollout (purpose `baseline`).

    Subtracted by `Returns(baseline="group.baseline")` this is ReMax's baseline.
    """

    reference = "ReMax, https://arxiv.org/abs/2310.10505"

    needs = ("rollout.reward", "rollout.purpose")
    provides = ("group.baseline",)

    def __call__(self, batch: Batch) -> Columns:
        greedy = batch["rollout.purpose"] == Purpose.baseline
        groups = batch.partition("rollout", "group").agg
        if not bool(groups.any(greedy).all()):
            raise PodiumError("A group has no rollout of purpose 'baseline': sample with Sample(greedy_baseline=True).")
        return {"group.baseline": groups.mean(batch["rollout.reward"], greedy)}
