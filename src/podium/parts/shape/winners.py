"""Marks on the winners of preference pairs."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Shape

__all__ = ["MarkWinners"]


class MarkWinners(Shape):
    """`rollout.winner`: whether a trained rollout has the highest reward of its group, and others have less.

    By it a likelihood term imitates the better one of each pair.
    """

    needs = ("rollout.reward",)
    provides = ("rollout.winner",)

    def __call__(self, batch: Batch) -> Columns:
        trained, reward = batch.trained("rollout"), batch["rollout.reward"]
        groups = batch.partition("rollout", "group")
        highest = groups.max(reward, trained)
        return {"rollout.winner": trained & (reward == highest) & (highest > groups.min(reward, trained))}
