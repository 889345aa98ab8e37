"""Averaging over shared structure: a step that several rollouts share cannot explain why they differ."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.partition import Partition

__all__ = ["SharedEdges", "SharedNodes"]


class SharedEdges(Shape):
    """A step gets the mean advantage of all steps of its group with the same edge (state, action, next state).

    An edge that one rollout alone walks keeps that rollout's advantage.
    """

    reference = "SALT, https://arxiv.org/abs/2510.20022"
    window: int = 1  # how many last states make a node

    needs = ("rollout.advantage", "step.state", "step.action", "step.next_state")
    provides = ("step.advantage",)

    def __post_init__(self) -> None:
        within(self, "window", 1)

    def edges(self, batch: Batch) -> Partition:
        """The steps of each group by edge."""
        node, _ = batch.history("step", "step.state", self.window)
        return batch.by("step", "group", node, "step.action", "step.next_state")

    def merged(self, batch: Batch) -> Tensor:
        """[step] whether at least two different rollouts have the edge."""
        rollout = batch.link("step", "rollout").to(batch.dtype)
        edges = self.edges(batch)
        return edges.min(rollout) != edges.max(rollout)

    def __call__(self, batch: Batch) -> Columns:
        own = batch.spread(batch["rollout.advantage"], "rollout", "step")
        return {"step.advantage": self.edges(batch).mean(own)}


class SharedNodes(Shape):
    """A turn that several branches share gets the mean of their advantages; a turn of one branch keeps its own."""

    reference = "ARPO, https://github.com/dongguanting/ARPO"

    needs = ("rollout.advantage", "turn.node")
    provides = ("turn.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        own = batch.spread(batch["rollout.advantage"], "rollout", "turn")
        return {"turn.advantage": batch.by("turn", "group", "turn.node").mean(own)}
