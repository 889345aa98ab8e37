"""Filters: groups and rollouts that are left out of training, by their rewards, by a column, or when cut off."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Keep, Need
from podium.core.schedule import Number

__all__ = ["DropMarked", "DropSolved", "DropTruncated", "KeepMixed", "KeepPivots", "KeepVaried", "KeepWithin"]


class KeepMixed(Keep):
    """Keep a group whose `of` varies, or which has a single rollout; ask for more rollouts until enough are kept."""

    reference = "DAPO, https://arxiv.org/abs/2503.14476"
    of: str = "rollout.reward"
    top_up: bool = True  # whether dropped groups are made up for by sampling more
    max_rounds: int = 10  # of sampling for one batch; 0: no limit
    carry_over: bool = False  # whether groups beyond the batch wait for the next one, the oldest first, or are cut

    provides = ("group.keep",)
    read_by_loop = ("top_up", "max_rounds", "carry_over")

    def __post_init__(self) -> None:
        within(self, "max_rounds", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    def __call__(self, batch: Batch) -> Columns:
        level = self.of.partition(".")[0]
        cells = batch.by(level, "group").agg
        x = batch[self.of]
        return {"group.keep": (cells.max(x) > cells.min(x)) | (cells.count() == 1)}


class DropSolved(KeepMixed):
    """Drop groups all of whose rollouts have the highest `of`: nothing is left to learn there, but from failure is."""

    reference = "NGRPO, https://github.com/nangongrui-ngr/NGRPO"
    highest: float = 1.0
    carry_over: bool = True

    def __call__(self, batch: Batch) -> Columns:
        level = self.of.partition(".")[0]
        return {"group.keep": batch.by(level, "group").agg.min(batch[self.of]) < self.highest}


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


class KeepWithin(KeepMixed):
    """Keep a group whose mean of `of` lies strictly between `low` and `high`."""

    reference = "ARES, https://github.com/shawn0728/ARES"
    low: float = 0.01
    high: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise PodiumError(f"KeepWithin.low = {self.low} must be below high = {self.high}.")

    def __call__(self, batch: Batch) -> Columns:
        mean = batch.by(self.of.partition(".")[0], "group").agg.mean(batch[self.of])
        return {"group.keep": (self.low < mean) & (mean < self.high)}


class KeepPivots(KeepMixed):
    """Keep a group with variance > 0 and mean < `below`: outcomes differ, and success is not the rule."""

    reference = "PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost"
    below: Number = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "below", 0)

    def __call__(self, batch: Batch) -> Columns:
        groups, x = batch.by(self.of.partition(".")[0], "group").agg, batch[self.of]
        return {"group.keep": (groups.max(x) > groups.min(x)) & (groups.mean(x) < self.below)}


class DropTruncated(Keep):
    """Leave rollouts that were cut off out of the loss; they still count in the statistics of their group."""

    reference = "DAPO, https://arxiv.org/abs/2503.14476"

    needs = ("rollout.truncated",)
    provides = ("rollout.keep.truncated",)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.truncated": ~batch["rollout.truncated"]}


class DropMarked(Keep):
    """Leave the rollouts for which `where` is true out of the loss; they still count in their group's statistics."""

    where: str = "rollout.degenerate"  # a boolean column of rollouts

    provides = ("rollout.keep.marked",)

    def __post_init__(self) -> None:
        if not self.where.startswith("rollout."):
            raise PodiumError(f"DropMarked.where = {self.where!r} must name a column of rollouts: rollout.NAME.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.where,)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.marked": ~batch[self.where].bool()}
