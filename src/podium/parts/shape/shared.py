"""Which tokens of tree-structured rollouts are trained: shared, confident and uncredited ones may be left out."""

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
    """Shared prefixes: a token that several rollouts share is trained in `each` of them, `once`, or where it is `new`.

    `once`: in the first trained rollout of the group that has it. `new`: in the rollout that sampled it, so nowhere if
    that rollout is not trained.
    """

    train: str = "once"  # each, once or new

    provides = ("token.keep.shared",)

    def __post_init__(self) -> None:
        one_of(self, "train", ("each", "once", "new"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return {"each": (), "once": ("node.key", "rollout.index"), "new": ("rollout.fork",)}[self.train]

    def __call__(self, batch: Batch) -> Columns:
        return {"token.keep.shared": self.chosen(batch)}

    def chosen(self, batch: Batch) -> Tensor:
        """[token] whether this copy of the token is trained."""
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
    """Probability mask: tokens to which the old policy gave at least the probability `below` are not trained.

    They leave the denominators, too.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    below: float = 0.9  # a probability, in (0, 1]

    needs = (OLD,)
    provides = ("token.keep.unsure",)

    def __post_init__(self) -> None:
        within(self, "below", 0, 1, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        return {"token.keep.unsure": batch[OLD] < math.log(self.below)}


class DropUncredited(Shape):
    """Elements of a level whose advantage is 0 are not trained, and leave the denominators."""

    level: str = "node"  # of the advantages

    @property
    def needs(self) -> tuple[Need, ...]:
        return (f"{self.level}.advantage",)

    @property
    def provides(self) -> tuple[str, ...]:
        return (f"{self.level}.keep.credited",)

    def __call__(self, batch: Batch) -> Columns:
        return {f"{self.level}.keep.credited": batch[f"{self.level}.advantage"] != 0}


class TakeSegments(Shape):
    """A budget of segments per iteration: at most `count` of those with a nonzero advantage are trained, at random.

    The budget is shared in proportion between the new segments and those that wait from earlier iterations. New
    segments that are not drawn are marked in `node.waiting`, and the memory `WaitingSegments` keeps them.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    count: int = 512  # segments, at least 1
    per_task: bool = False  # whether `count` is for each task of the batch

    needs = ("node.advantage", "batch.replay.stored")
    provides = ("node.keep.taken", "node.waiting", "batch.segments.missing")

    def __post_init__(self) -> None:
        within(self, "count", 1)

    def __call__(self, batch: Batch) -> Columns:
        credited = batch.trained("node") & (batch["node.advantage"] != 0)
        new, waiting = credited.sum().double(), batch["batch.replay.stored"].double()
        most = self.count * (batch.size("group") if self.per_task else 1)
        budget = (new * (most / (new + waiting).clamp(min=1)).clamp(max=1)).ceil()
        taken = credited & (batch.by("node").rank(batch.random("node", "segments"), where=credited) < budget)
        missing = (most - budget).to(batch.dtype)
        return {"node.keep.taken": taken, "node.waiting": credited & ~taken, "batch.segments.missing": missing}
