"""Filters: groups or rollouts that are left out of the loss, by their rewards, by truncation or by a column."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Keep, Need
from podium.core.schedule import Number

__all__ = ["DropMarked", "DropSolved", "DropTruncated", "KeepMixed", "KeepPivots", "KeepVaried", "KeepWithin"]


class KeepMixed(Keep):
    """Dynamic sampling: keeps the groups whose rewards are not all equal, and samples more until the batch is full.

    A group with a single rollout is kept. Without `top_up` the batch just gets smaller. With of="rollout.correct" it
    looks at correctness, whatever was added to the reward: penalties of length do not keep a group that is all wrong.
    """

    reference = "DAPO, https://arxiv.org/abs/2503.14476"
    of: str = "rollout.reward"  # the column that must vary within the group
    top_up: bool = True  # whether more groups are sampled in place of the dropped ones
    max_rounds: int = 10  # rounds of sampling per batch; 0: no limit
    carry_over: bool = False  # whether surplus groups wait for the next batch, oldest first, instead of being discarded

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
        x = batch[self.of].to(batch.dtype)
        return {"group.keep": (cells.max(x) > cells.min(x)) | (cells.count() == 1)}


class DropSolved(KeepMixed):
    """Drops the groups in which every rollout reaches the highest reward; groups without any success are kept."""

    reference = "NGRPO, https://github.com/nangongrui-ngr/NGRPO"
    highest: float = 1.0  # a group is dropped if its minimum reaches this
    carry_over: bool = True

    def __call__(self, batch: Batch) -> Columns:
        level = self.of.partition(".")[0]
        return {"group.keep": batch.by(level, "group").agg.min(batch[self.of]) < self.highest}


class KeepVaried(Keep):
    """Keeps the `share` of the groups whose rewards have the largest std. share = 1 keeps all."""

    reference = "SPEAR, https://github.com/TencentYoutuResearch/SPEAR"
    share: Number = 0.75  # in (0, 1]; the number of groups is rounded up

    needs = ("rollout.reward",)
    provides = ("group.keep",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        std = batch.by("rollout", "group").agg.std(batch["rollout.reward"])
        rank = batch.by("group").rank(-std)
        count = (batch.size("group") * self.share - 1e-9) // 1 + 1  # rounded up, but for rounding error
        return {"group.keep": rank < count}


class KeepWithin(KeepMixed):
    """Online difficulty filtering: keeps the groups whose mean reward lies strictly between `low` and `high`."""

    reference = "ARES, https://github.com/shawn0728/ARES"
    low: float = 0.01  # exclusive
    high: float = 0.99  # exclusive

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise PodiumError(f"KeepWithin.low = {self.low} must be below high = {self.high}.")

    def __call__(self, batch: Batch) -> Columns:
        mean = batch.by(self.of.partition(".")[0], "group").agg.mean(batch[self.of])
        return {"group.keep": (self.low < mean) & (mean < self.high)}


class KeepPivots(KeepMixed):
    """Keeps the groups whose rewards vary and whose mean reward is below `below`: hard states with mixed outcomes.

    With `profiled` it keeps those that a profile has found to be such (`rollout.pivot`), whatever their rewards now.
    """

    reference = "PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost"
    below: Number = 0.75  # ≥ 0
    profiled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "below", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.pivot",) if self.profiled else super().needs

    def __call__(self, batch: Batch) -> Columns:
        if self.profiled:
            return {"group.keep": batch.partition("rollout", "group").agg.any(batch["rollout.pivot"].bool())}
        groups, x = batch.by(self.of.partition(".")[0], "group").agg, batch[self.of]
        return {"group.keep": (groups.max(x) > groups.min(x)) & (groups.mean(x) < self.below)}


class DropTruncated(Keep):
    """Overlong filtering: leaves truncated rollouts out of the loss; they still count in their group's statistics."""

    reference = "DAPO, https://arxiv.org/abs/2503.14476"

    needs = ("rollout.truncated",)
    provides = ("rollout.keep.truncated",)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.truncated": ~batch["rollout.truncated"]}


class DropMarked(Keep):
    """Leaves the rollouts for which `where` is True out of the loss; they still count in their group's statistics."""

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
