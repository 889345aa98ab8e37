"""A level that rises when a metric of the run gets worse, for schedules that back off from what caused it."""

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
    """Raises `monitor.level` by `step`, from `start` up to `high`, when a metric got worse since its last value.

    A schedule follows it: `HybridReward(squash="threshold", threshold=Follow("monitor.level"))` makes a reward model's
    scores harder to pass, `model=Follow("monitor.level", scale=-1, offset=0.5, low=0)` lowers their weight.
    """

    reference = "Skywork R1V2, https://arxiv.org/abs/2504.16656"
    metric: str  # its name in the run: eval.NAME is measured at evaluations, others in every iteration
    worse: str = "rises"  # the direction that is worse: rises or falls
    by: float = 0.0  # changes up to this one are ignored, ≥ 0
    start: float = 0.0
    step: float = 0.1  # ≥ 0
    high: float = math.inf  # ≥ start

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
                return state  # no metric of its kind was measured this time
            raise PodiumError(
                f"{self!r} watches {self.metric!r}, which the run does not measure. {nearest(self.metric, values)}"
            )
        value = float(values[self.metric])
        change = 0.0 if state["last"] is None else value - state["last"]
        bad = (change if self.worse == "rises" else -change) > self.by
        return {"level": min(state["level"] + self.step, self.high) if bad else state["level"], "last": value}

    def scalars(self, state: State) -> dict[str, float]:
        return {"monitor.level": state["level"]}
