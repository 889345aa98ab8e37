"""Imitation of the better of a demonstration and an own rollout."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number

__all__ = ["BetterOf"]


class BetterOf(Shape):
    """Imitates the better of a group's best demonstration and its best own rollout, if either beats the value.

    The own rollout is the target if its advantage is at least the demonstration's. It is imitated where A_own ≥ 0 or
    A_demonstration > 0: then its `rollout.imitation` is `weight`, and 0 for all others. Groups without a demonstration
    imitate nothing. With a group's mean as the value its best rollout is never below it; the second condition matters
    with values from elsewhere. Add `Likelihood(weight="rollout.imitation")` to train on it.
    """

    reference = "A2PR, https://arxiv.org/abs/2405.19909"
    weight: Number = 1.0  # of what is imitated, ≥ 0

    needs = ("rollout.advantage", "rollout.demonstration", "rollout.index")
    provides = ("rollout.imitation",)

    def __post_init__(self) -> None:
        within(self, "weight", 0)

    @property
    def neutral(self) -> BetterOf:
        return self.replace(weight=0.0)

    def __call__(self, batch: Batch) -> Columns:
        advantage, given, trained = batch["rollout.advantage"], batch["rollout.demonstration"], batch.trained("rollout")
        index, groups = batch["rollout.index"].double(), batch.partition("rollout", "group").agg

        def best(among: Tensor) -> tuple[Tensor, Tensor]:
            """[group] the highest advantage among these, and [rollout] which has it, the first by index on ties."""
            highest = groups.max(advantage.where(among, -torch.inf))
            reached = among & (advantage == batch.spread(highest, "group", "rollout"))
            first = groups.min(index.where(reached, torch.inf))
            return highest, reached & (index == batch.spread(first, "group", "rollout"))

        a_own, own = best(trained & ~given)
        a_given, demonstration = best(trained & given)
        worth = ((a_own >= 0) | (a_given > 0)) & (a_given > -torch.inf)  # [group]
        keeps_own = batch.spread(a_own >= a_given, "group", "rollout")
        target = torch.where(keeps_own, own, demonstration) & batch.spread(worth, "group", "rollout")
        return {"rollout.imitation": self.weight * target.to(advantage.dtype)}
