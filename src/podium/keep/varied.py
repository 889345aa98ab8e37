"""The groups whose rewards differ most."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Keep
from podium.core.schedule import Number

__all__ = ["KeepVaried"]


class KeepVaried(Keep):
    """Keep the share of the groups, rounded up, whose rewards have the largest std."""

    reference = "SPEAR, https://github.com/TencentYoutuResearch/SPEAR"
    share: Number = 0.75

    needs = ("rollout.reward",)
    provides = ("group.keep",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        std = batch.by("rollout", "group").agg.std(batch["rollout.reward"])
        rank = batch.by("group").rank(-std)
        wanted = (batch.size("group") * self.share - 1e-9) // 1 + 1
        return {"group.keep": rank < wanted}
