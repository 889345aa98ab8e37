"""Advantages averaged over shared steps: what several rollouts have in common cannot explain why they differ."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.partition import Partition

__all__ = ["SharedEdges", "SharedNodes"]


class SharedEdges(Shape):
    """Graph-merged advantages: the mean over the steps of a group with the same edge (state, action, next state).

    A step whose edge occurs in one rollout only keeps that rollout's advantage.
    """

    reference = "SALT, https://arxiv.org/abs/2510.20022"
    window: int = 1  # how many of the last states identify a node; at least 1

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
        advantage = batch.spread(batch["rollout.advantage"], "rollout", "step")
        return {"step.advantage": self.edges(batch).mean(advantage)}


class SharedNodes(Shape):
    """Branch-averaged advantages: a turn that several branches share gets the mean of their advantages."""

    reference = "ARPO, https://github.com/dongguanting/ARPO"

    needs = ("rollout.advantage", "turn.node")
    provides = ("turn.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        advantage = batch.spread(batch["rollout.advantage"], "rollout", "turn")
        return {"turn.advantage": batch.by("turn", "group", "turn.node").mean(advantage)}
