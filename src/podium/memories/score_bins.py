"""Calibration of early quality scores, for pruning rollouts while they are sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns

__all__ = ["ScoreBins"]


BINS = ("group.bins.count", "group.bins.right")


class ScoreBins(Memory):
    """A histogram of early quality scores: per bin of [0, 1], the finished rollouts and how many of them were right.

    It calibrates the scores by which rollouts are pruned (`group.bins.count`, `group.bins.right`).
    """

    reference = "ARRoL: Prune as You Generate"
    bins: int = 10  # of equal width, ≥ 1

    needs = ("rollout.quality", "rollout.detected", "rollout.pruned", "rollout.correct")
    provides = BINS
    remembers_tasks = False  # one histogram for all tasks

    def __post_init__(self) -> None:
        within(self, "bins", 1)

    def initial(self) -> State:
        zeros = torch.zeros(self.bins, dtype=torch.float64)
        return {"count": zeros, "right": zeros}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        shape = (len(tasks), self.bins)
        return {f"group.bins.{name}": state[name].expand(shape) for name in ("count", "right")}

    def observe(self, state: State, batch: Batch) -> State:
        seen = (batch["rollout.detected"].bool() & ~batch["rollout.pruned"].bool()).cpu()
        counted = batch.counted("rollout")
        seen = seen if counted is None else seen & counted.cpu()
        number = (batch["rollout.quality"].cpu()[seen].double() * self.bins).long().clamp(0, self.bins - 1)
        right = batch["rollout.correct"].cpu()[seen].double()
        return {
            "count": state["count"].index_add(0, number, torch.ones_like(right)),
            "right": state["right"].index_add(0, number, right),
        }
