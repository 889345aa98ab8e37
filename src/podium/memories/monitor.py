"""A level that rises when something that the run measures gets worse: less is then asked of what caused it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError, nearest, one_of, within
from podium.core.memory import Memory, State
from podium.core.part import Columns

__all__ = ["Monitor"]


class Monitor(Memory):
    """`monitor.level`: begins at `start` and rises by `step`, up to `high`, when `metric` is worse than the last time.

    A schedule follows it: `HybridReward(squash="threshold", threshold=Follow("monitor.level"))` accepts fewer of a
    reward model's scores, `model=Follow("monitor.level", scale=-1, offset=0.5, low=0)` counts them less.
    """

    reference = "Skywork R1V2, https://arxiv.org/abs/2504.16656"
    metric: str  # a number of the run: eval.NAME is measured now and then, others in every iteration
    worse: str = "rises"  # rises or falls: what is bad in it
    by: float = 0.0  # changes up to this one do not count
    start: float = 0.0
    step: float = 0.1
    high: float = math.inf

    provides = ("batch.monitor.level",)
    read_by_loop = ("metric", "worse", "by", "step", "high")

    def __post_init__(self) -> None:
        one_of(self, "worse", ("rises", "falls"))
        within(self, "by", 0)
        within(self, "step", 0)
        within(self, "high", self.start)

    def initial(self) -> State:
        return {"level": self.start, "last": None}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.monitor.level": torch.tensor([state["level"]], dtype=torch.float64)}

    def observe(self, state: State, batch: Batch) -> State:
        return state

    def measured(self, state: State, values: Mapping[str, Any]) -> State:
        if self.metric not in values:
            of_evaluation = self.metric.startswith("eval.")
            same = {name for name in values if name.startswith("eval.") == of_evaluation} - {"iteration"}
            if not same or state["last"] is not None:
                return state  # nothing of its kind was measured now
            raise PodiumError(
                f"{self!r} watches {self.metric!r}, which the run does not measure. {nearest(self.metric, values)}"
            )
        value = float(values[self.metric])
        change = 0.0 if state["last"] is None else value - state["last"]
        bad = (change if self.worse == "rises" else -change) > self.by
        return {"level": min(state["level"] + self.step, self.high) if bad else state["level"], "last": value}

    def scalars(self, state: State) -> dict[str, float]:
        return {"monitor.level": state["level"]}
