"""Dynamic sampling: keep the groups that carry a signal."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Keep, Need

__all__ = ["KeepMixed"]


class KeepMixed(Keep):
    """Keep a group whose `of` varies, or which has a single rollout; ask for more rollouts until enough are kept."""

    reference = "DAPO, https://arxiv.org/abs/2503.14476"
    of: str = "rollout.reward"
    top_up: bool = True  # whether dropped groups are made up for by sampling more
    max_rounds: int = 10  # of sampling for one batch; 0: no limit

    provides = ("group.keep",)
    read_by_loop = ("top_up", "max_rounds")

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
