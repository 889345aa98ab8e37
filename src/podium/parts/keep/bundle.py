"""Tasks in bundles: what is compared is how well a bundle of tasks goes."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Keep

__all__ = ["Bundle"]


class Bundle(Keep):
    """Groups in bundles of `size`, drawn at random; the last one may be smaller."""

    reference = "RiskPO, https://github.com/RTkenny/RiskPO"
    size: int = 5  # groups

    provides = ("group.bundle",)

    def __post_init__(self) -> None:
        within(self, "size", 1)

    def __call__(self, batch: Batch) -> Columns:
        place = torch.argsort(torch.argsort(batch.random("group", "bundle"), stable=True))
        return {"group.bundle": place // self.size}
