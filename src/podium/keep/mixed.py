"""Dynamic sampling: keep the groups that carry a signal."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Keep, Need

__all__ = ["DropSolved", "KeepMixed"]


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
