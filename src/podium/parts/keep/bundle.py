"""Bundles of tasks, for advantages that compare the total score on several tasks."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Keep

__all__ = ["Bundle"]


class Bundle(Keep):
    """Assigns groups at random to bundles of about `size` (`group.bundle`): as many bundles as come closest to it,
    whose sizes differ by at most one, so that no remainder becomes a bundle of its own. Drops nothing."""

    reference = "RiskPO, https://github.com/RTkenny/RiskPO"
    size: int = 5  # groups, ≥ 1

    provides = ("group.bundle",)

    def __post_init__(self) -> None:
        within(self, "size", 1)

    def __call__(self, batch: Batch) -> Columns:
        place = torch.argsort(torch.argsort(batch.random("group", "bundle"), stable=True))
        bundles = max(int(len(place) / self.size + 0.5), 1)
        return {"group.bundle": place * bundles // max(len(place), 1)}
