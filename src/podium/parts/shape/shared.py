"""Who is trained in a forest: tokens that several rollouts share, tokens that were certain, segments without credit."""

from __future__ import annotations

import math

from torch import Tensor

from podium.core.batch import Batch
from podium.core.branches import Forest
from podium.core.errors import one_of, within
from podium.core.part import Columns, Need, Shape
from podium.core.partition import Partition
from podium.core.signal import Signal

__all__ = ["DropSure", "DropUncredited", "TakeSegments", "TrainShared"]

OLD = Signal("logp", of="old")


class TrainShared(Shape):
    """Which copies of a token that several rollouts share are trained: `each`, `once` or where it is `new`.

    Once: in the first rollout of the group that has it and is trained. New: in the rollout that wrote it, whether that
    is trained or not.
    """

    train: str = "once"

    provides = ("token.keep.shared",)

    def __post_init__(self) -> None:
        one_of(self, "train", ("each", "once", "new"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return {"each": (), "once": ("node.key", "rollout.index"), "new": ("rollout.fork",)}[self.train]

    def __call__(self, batch: Batch) -> Columns:
        return {"token.keep.shared": self.chosen(batch)}

    def chosen(self, batch: Batch) -> Tensor:
        """[token] whether this copy of it is trained."""
        if self.train == "each":
            return batch.action
        if self.train == "new":
            fork = batch.spread(batch["rollout.fork"].long(), "rollout", "token")
            return batch.position("token", "rollout") >= fork
        forest = Forest.of(batch)
        trained = batch.spread(batch.trained("rollout"), "rollout", "node")
        rank = batch.spread(batch["rollout.index"].long(), "rollout", "node")
        first = Partition(forest.vertex, len(forest)).min(rank, trained)
        return batch.spread(trained & (rank == first), "node", "token")


class DropSure(Shape):
    """Tokens that the old policy gave a probability of at least `below` are not trained, and count in no mean."""

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    below: float = 0.9

    needs = (OLD,)
    provides = ("token.keep.unsure",)

    def __post_init__(self) -> None:
        within(self, "below", 0, 1, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        return {"token.keep.unsure": batch[OLD] < math.log(self.below)}


class DropUncredited(Shape):
    """Elements of a level whose advantage is 0 are not trained, and count in no mean."""

    level: str = "node"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (f"{self.level}.advantage",)

    @property
    def provides(self) -> tuple[str, ...]:
        return (f"{self.level}.keep.credited",)

    def __call__(self, batch: Batch) -> Columns:
        return {f"{self.level}.keep.credited": batch[f"{self.level}.advantage"] != 0}


class TakeSegments(Shape):
    """At most `count` segments are trained, drawn from those whose advantage is not 0: the same share of today's as of
    those that wait. The others wait for a later iteration, and `WaitingSegments` remembers them.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    count: int = 512

    needs = ("node.advantage", "batch.replay.stored")
    provides = ("node.keep.taken", "node.waiting", "batch.segments.missing")

    def __post_init__(self) -> None:
        within(self, "count", 1)

    def __call__(self, batch: Batch) -> Columns:
        credited = batch.trained("node") & (batch["node.advantage"] != 0)
        own, waiting = credited.sum().double(), batch["batch.replay.stored"].double()
        today = (own * (self.count / (own + waiting).clamp(min=1)).clamp(max=1)).ceil()
        taken = credited & (batch.by("node").rank(batch.random("node", "segments"), where=credited) < today)
        missing = (self.count - today).to(batch.dtype)
        return {"node.keep.taken": taken, "node.waiting": credited & ~taken, "batch.segments.missing": missing}
